// Look inside: how the network computes the answer to a question, step by step.

import { h, fill, field, problem, say } from "../dom.js";
import { get, post } from "../api.js";
import { count, exactly } from "../format.js";
import { href, params, setParams } from "../state.js";
import { modelChoice } from "../widgets.js";
import { figure, frame, pinBoard, saveButton } from "../pictures.js";
import { stagePicture } from "../stage_pictures.js";
import { heatmap } from "../heatmap.js";

export default async function inside(room, { signal }) {
  room.append(h("header", { class: "hero small" }, h("h1", {}, "Look inside"),
    h("p", { class: "lead" }, "Every number the network computes on the way from a question to its answer. Step through it.")));
  const choice = await modelChoice(room, () => follow(true));
  if (!choice || signal.aborted) return;
  const question = h("input", { type: "text", autocomplete: "off", spellcheck: false, maxlength: 2000, value: params().get("q") ?? "" });
  const form = h("form", { class: "asking", onsubmit: (event) => { event.preventDefault(); setParams({ q: question.value, step: null }); follow(); } },
    choice.control, field("Question", question), h("button", { type: "submit" }, "Follow it"));
  const outcome = h("div", { "aria-live": "off" });
  room.append(h("div", { class: "card" }, form), outcome);

  async function follow(isNew) {
    const model = encodeURIComponent(choice.name());
    try {
      if (!question.value || isNew) {
        const { questions } = await get(`/api/models/${model}/examples`, { signal });
        if (isNew || !question.value) { question.value = questions[0] ?? question.value; setParams({ q: question.value, step: null }); }
      }
      if (!question.value) { fill(outcome, h("p", { class: "note" }, "Type a question that the model knows.")); return; }
      fill(outcome, h("p", { class: "hint", role: "status" }, "Following …"));
      const trace = await post(`/api/models/${model}/trace`, { text: question.value }, { signal });
      const fact = trace.method === "retrieval" && trace.answer !== null ? await post(`/api/models/${model}/fact`, { text: question.value }, { signal }).catch(() => null) : null;
      fill(outcome, journey(trace, fact, choice.name(), signal));
      say(`${trace.stages.length} steps`);
    } catch (error) {
      if (error.name !== "AbortError") fill(outcome, h("div", { class: "card" }, problem(error)));
    }
  }
  follow();
}

function journey(trace, fact, model, signal) {
  const { stages } = trace;
  let step = Math.max(0, Math.min(stages.length - 1, Number(params().get("step") ?? 1) - 1 || 0));
  const chips = h("ol", { class: "stepper" }, stages.map((stage, at) => h("li", {}, h("button", { type: "button", onclick: () => go(at) }, stage.title))));
  const title = h("h2", {}), sentence = h("p", { class: "lead" }), where = h("p", { class: "hint" }), drawing = frame("This step as a picture");
  const back = h("button", { type: "button", class: "second", onclick: () => go(step - 1) }, "← Back");
  const next = h("button", { type: "button", id: "next-step", onclick: () => go(step + 1) }, "Next →");
  const panel = h("section", { class: "card", "aria-label": "Step by step" }, chips, title, sentence, drawing,
    h("div", { class: "row spread" }, h("div", { class: "row" }, back, next), where, saveButton(() => drawing.querySelector("svg"), "step")));

  const board = pinBoard();
  const holder = h("div");
  const seen = trace.tokens.length > 1 && trace.layers[0].stream.length === trace.tokens.length;
  const token = h("select", { onchange: () => draw() }, trace.tokens.map((each, at) => h("option", { value: String(at), selected: at === trace.tokens.length - 1 },
    `${at + 1}: ${each.kind === "pad" ? "padding" : each.kind === "extra" ? "extra token" : each.text === " " ? "space" : each.text}`)));
  let map;
  function draw() {
    map = heatmap(trace, Number(token.value), board, { onLayer: (layer) => go(stages.findIndex((stage) => layer >= stage.first && layer <= stage.last)) });
    fill(holder, map.host);
    map.mark(stages[step]);
  }
  function go(to) {
    if (to < 0 || to >= stages.length) return;
    step = to;
    const stage = stages[step];
    setParams({ step: step + 1 });
    title.textContent = `${step + 1}. ${stage.title}`;
    sentence.textContent = stage.sentence;
    where.textContent = stage.first < 0 ? "before the first layer" : stage.first === stage.last ? `layer ${stage.first} of ${trace.layers.length - 1}, counted from 0` : `layers ${stage.first} to ${stage.last} of ${trace.layers.length - 1}, counted from 0`;
    fill(drawing, stagePicture(trace, stage, fact));
    [...chips.children].forEach((item, at) => { if (at === step) item.firstChild.setAttribute("aria-current", "step"); else item.firstChild.removeAttribute("aria-current"); });
    const chip = chips.children[step], middle = chip.offsetLeft - chips.clientWidth / 2 + chip.clientWidth / 2;
    chips.scrollTo({ left: middle });
    back.disabled = step === 0;
    next.disabled = step === stages.length - 1;
    map?.mark(stage);
    say(`Step ${step + 1}: ${stage.title}. ${stage.sentence}`);
  }
  const keys = (event) => {
    if (event.target.closest("input, select, textarea, .heat, dialog") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowRight") go(step + 1);
    if (event.key === "ArrowLeft") go(step - 1);
  };
  document.addEventListener("keydown", keys, { signal });
  queueMicrotask(() => { draw(); go(step); });
  const output = exactly(trace.output[trace.output.length - 1]);
  return [
    h("p", { class: "verdict" }, h("strong", {}, trace.question), " → ", h("strong", { class: trace.answer === null ? "unknown" : "known" }, trace.answer ?? "unknown"),
      h("span", { class: "hint" }, ` the network's output is ${output}; ${count(trace.layers.length - 1)} layers of ${trace.method ?? "a network"}, ${trace.precision} weights `),
      trace.answer !== null && h("a", { href: href("break", { model, q: trace.question }) }, "Break this fact")),
    panel,
    h("section", { class: "card", "aria-labelledby": "stream-title" }, h("div", { class: "row spread" }, h("h2", { id: "stream-title" }, "The residual stream"), seen && field("Token", token)),
      h("p", { class: "hint" }, "Each column is a layer and each row is a channel. Blue numbers are positive and orange numbers are negative; a stronger colour is a larger number. Each row has its own scale. Hover over a cell to see its number, click to pin it."),
      figure("residual-stream", `${trace.question}: the stream, layer by layer`, holder), board.board),
  ];
}
