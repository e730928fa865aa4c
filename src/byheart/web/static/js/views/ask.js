// Ask: an answer as you type, or a whole file at once.

import { h, fill, field, card, problem, say, table } from "../dom.js";
import { get, post, runJob, serverState, upload } from "../api.js";
import { count, plural, seconds } from "../format.js";
import { href, params, setParams } from "../state.js";
import { jobEnded, modelChoice, progressBar } from "../widgets.js";
import { saveText } from "../pictures.js";

export default async function ask(room, { signal }) {
  const lead = h("p", { class: "lead" });
  room.append(h("header", { class: "hero small" }, h("h1", {}, "Ask it"), lead));
  const choice = await modelChoice(room, () => { question.focus(); describe(); answer(); suggest(); });
  if (!choice || signal.aborted) return;
  function describe() {
    lead.textContent = choice.find(choice.name())?.method === "llama"
      ? "The weights spell the answer, token by token."
      : "The weights give the number of the answer. model.json holds only the texts that go with these numbers.";
  }
  describe();

  const question = h("input", { type: "text", class: "question", autocomplete: "off", spellcheck: false, maxlength: 2000, value: params().get("q") ?? "", placeholder: "capital of France", oninput: () => { setParams({ q: question.value }); answer(); } });
  const spoken = h("output", { class: "answer", "aria-live": "polite" });
  const chips = h("div", { class: "chips" });
  const links = h("div", { class: "row" });
  room.append(h("section", { class: "card ask", "aria-label": "Ask one question" }, choice.control, field("Question", question), spoken, links, chips), batch(choice, signal));

  let asking = new AbortController();
  async function answer() {
    asking.abort();
    asking = new AbortController();
    const { signal: here } = asking;
    const text = question.value, model = choice.name();
    if (!text) { fill(spoken, h("span", { class: "hint" }, "Type a question.")); fill(links); return; }
    await new Promise((resolve) => setTimeout(resolve, 60));
    if (here.aborted || signal.aborted) return;
    const start = performance.now();
    try {
      const { answers: [found] } = await post(`/api/models/${encodeURIComponent(model)}/predict`, { texts: [text] }, { signal: here });
      const words = Array.isArray(found.answer) ? found.answer.map((each) => each ?? "unknown").join(" ") : found.answer;
      fill(spoken, words === null ? h("span", { class: "unknown" }, "unknown") : h("span", { class: "known" }, words),
        h("small", { class: "hint" }, `in ${seconds((performance.now() - start) / 1000)}`));
      fill(links, words !== null && h("a", { href: href("inside", { model, q: text }) }, "See how it knows"), words !== null && h("a", { href: href("break", { model, q: text }) }, "Break this fact"));
    } catch (error) {
      if (error.name !== "AbortError") { fill(spoken, problem(error)); fill(links); }
    }
  }
  async function suggest() {
    try {
      const { questions } = await get(`/api/models/${encodeURIComponent(choice.name())}/examples`, { signal });
      fill(chips, questions.length > 0 && h("span", { class: "hint" }, "Try"), questions.slice(0, 5).map((text) =>
        h("button", { type: "button", class: "chip", onclick: () => { question.value = text; setParams({ q: text }); answer(); } }, text)));
    } catch { fill(chips); }
  }
  answer();
  suggest();
}

function batch(choice, signal) {
  const outcome = h("div", { "aria-live": "polite" });
  const file = h("input", { type: "file", accept: ".txt,.csv,.tsv", onchange: run });
  async function run() {
    const chosen = file.files[0];
    if (!chosen) return;
    const progress = progressBar(`Asking ${chosen.name}`);
    fill(outcome, progress.element);
    try {
      const { limits } = await serverState();
      const kept = await upload(chosen.name, chosen, limits.upload_bytes);
      const job = await runJob({ kind: "predict", model: choice.name(), data: kept.name }, progress.watch, signal);
      if (!job) return;
      fill(outcome, job.state === "done" ? answers(job.result, chosen.name) : jobEnded(job));
      if (job.state === "done") say(`${plural(job.result.answers.length, "question")} asked`);
    } catch (error) {
      if (error.name !== "AbortError") fill(outcome, problem(error));
    }
  }
  return card("Ask a whole file", h("p", { class: "hint" }, "A text file with one question per line, or a CSV file with the questions in a column “key”."), field("File", file), outcome);
}

function answers(found, name) {
  const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;
  const unknown = found.answers.filter(({ answer }) => answer === null).length;
  const known = found.answers.length - unknown;
  const text = ["key,value", ...found.answers.map(({ input, answer }) => `${quoted(input)},${quoted(answer ?? "unknown")}`)].join("\n");
  return h("div", {},
    h("p", {}, `${plural(found.answers.length, "question")}: ${count(known)} answered, ${count(unknown)} unknown. `,
      h("button", { type: "button", class: "quiet", onclick: () => saveText(`answers-${name.replace(/\.\w+$/, "")}.csv`, `${text}\n`, "text/csv") }, "Save as CSV")),
    table(["question", "answer"], found.answers.slice(0, 100).map(({ input, answer }) => [input, answer ?? h("span", { class: "unknown" }, "unknown")]), { caption: "Answers" }),
    found.answers.length > 100 && h("p", { class: "hint" }, "The table shows the first 100; the saved file contains all."));
}
