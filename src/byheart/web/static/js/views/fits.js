// How much fits: model sizes for a given number of facts: built, guaranteed by a theorem, reached by training, and the lower bounds.

import { h, fill, field, card, problem, say, table } from "../dom.js";
import { get, post } from "../api.js";
import { count, plural, short } from "../format.js";
import { params, setParams } from "../state.js";
import { figure } from "../pictures.js";
import { loadPlot, living, look } from "../charts.js";
import { colour } from "../pictures.js";

// The label, colour and dashes of each kind of line. The dashes distinguish the kinds without colour.
const KINDS = { estimate: ["estimated for byheart", "series-1", ""], theorem: ["guaranteed by a theorem", "series-4", "7,4"], trained: ["reached by training", "series-2", "9,3,2,3"], floor: ["lower bound: some sets of facts need this", "series-6", "1.5,3.5"] };
const VOCAB = 1000; // how many different tokens there are
const EXAMPLES = {
  "GPT-2": { model_type: "gpt2", n_embd: 768, n_layer: 12, n_head: 12, vocab_size: 50257, n_positions: 1024 },
  "Llama 3.2 1B": { model_type: "llama", hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16, num_attention_heads: 32, num_key_value_heads: 8, head_dim: 64, vocab_size: 128256, max_position_embeddings: 131072, tie_word_embeddings: true, hidden_act: "silu" },
};

export default async function fits(room, { signal }) {
  const refused = h("div", { class: "note", role: "status" });
  // A number of the address. If it is not one that the sliders reach, the usual one is shown instead, with a note.
  function given(name, least, most, usual) {
    const text = params().get(name);
    if (text === null) return usual;
    if (Number(text) >= least && Number(text) <= most) return Number(text);
    refused.append(h("p", {}, `The address has ${name}=${text}, which is not a number from ${count(least)} to ${count(most)}. ${count(usual)} is used instead.`));
    return usual;
  }
  const power = slider("Facts", 2, 12, 0.1, Math.log10(given("facts", 100, 1e12, 1e6)), (value) => plural(facts(value), "fact"));
  const bits = slider("Bits in an answer", 1, 40, 1, given("bits", 1, 40, 10), (value) => `${plural(Number(value), "bit")}: one of ${count(2 ** value)}`);
  const length = slider("Tokens in a question", 1, 64, 1, given("tokens", 1, 64, 8), (value) => plural(Number(value), "token"));
  const drawing = h("div"), rows = h("div"), status = h("p", { class: "hint", role: "status" });
  room.append(h("header", { class: "hero small" }, h("h1", {}, "How much fits"),
    h("p", { class: "lead" }, "How large must a model be to know this many facts? The plot shows the sizes that byheart can build, that theorems guarantee and that training reached, and lower bounds.")),
  refused, h("div", { class: "card" }, h("div", { class: "three" }, power.control, bits.control, length.control)),
  h("section", { class: "card", "aria-label": "Sizes" }, figure("how-much-fits", "Parameters against facts. Thick lines: the smallest of each kind", drawing), legend(), status, rows));

  let architecture = null, plan = null;
  room.append(architectures((found) => { architecture = found; again?.(); }, signal));

  let again;
  try {
    const Plot = await loadPlot();
    if (signal.aborted) return;
    again = living(drawing, (width) => plan && chart(Plot, plan, architecture, width), signal);
  } catch (error) { fill(drawing, problem(error)); }

  let asking = new AbortController(), timer;
  async function ask() {
    asking.abort();
    asking = new AbortController();
    const wanted = { facts: facts(power.value()), bits: bits.value(), tokens: length.value() };
    setParams(wanted);
    status.textContent = "Computing …";
    try {
      plan = await get(`/api/plan?facts=${wanted.facts}&value_bits=${wanted.bits}&seq_len=${wanted.tokens}&vocab=${VOCAB}`, { signal: asking.signal });
      if (signal.aborted) return;
      status.textContent = "";
      again?.();
      fill(rows, list(plan));
      const least = plan.rows.filter((row) => row.kind === "estimate").sort((a, b) => a.parameters - b.parameters)[0];
      if (least) say(`${plural(plan.facts, "fact")}: the smallest model that byheart builds is ${least.name} with ${short(least.parameters)} parameters`);
    } catch (error) {
      if (error.name === "AbortError") return;
      status.textContent = "";
      plan = null;
      again?.();
      fill(rows, problem(error.facts?.possible ? tooManyFacts(wanted, Number(error.facts.possible)) : error));
    }
  }
  for (const each of [power, bits, length]) each.input.addEventListener("input", () => { fill(refused); clearTimeout(timer); timer = setTimeout(ask, 120); });
  await ask();
}

// There are fewer questions of this length than facts.
function tooManyFacts({ facts, tokens }, most) {
  let enough = tokens;
  while (VOCAB ** enough < facts) enough += 1;
  return { kind: "Too many facts", message: `there are only ${count(most)} questions of ${plural(tokens, "token")}, as there are ${count(VOCAB)} different tokens.\nMove “Facts” to at most ${count(most)}, or “Tokens in a question” to at least ${enough}.` };
}

// Round to two digits, so that the slider stops at round numbers.
const facts = (exponent) => Number((10 ** Number(exponent)).toPrecision(2));

function slider(label, min, max, step, value, words) {
  const input = h("input", { type: "range", min, max, step, value: String(value) });
  const shown = h("output", { class: "value" });
  const tell = () => { shown.textContent = words(input.value); input.setAttribute("aria-valuetext", words(input.value)); };
  input.addEventListener("input", tell);
  tell();
  const control = field(label, input);
  control.append(shown);
  return { control, input, value: () => Number(input.value) };
}

function chart(Plot, plan, architecture, width) {
  const narrow = width < 560, best = bestOfKinds(plan.rows);
  const curves = plan.curves.map((curve) => ({ ...curve, isBest: best.has(curve.name) }));
  const points = curves.flatMap((curve) => curve.points.map(([n, parameters]) => ({ name: curve.name, kind: curve.kind, facts: n, parameters })));
  const ends = curves.map((curve) => ({ ...curve, facts: curve.points.at(-1)[0], parameters: curve.points.at(-1)[1] }));
  const last = Math.max(...ends.map((end) => end.facts));
  const height = Math.max(340, Math.min(520, width * 0.52)), powers = points.map((point) => Math.log10(point.parameters));
  const perPixel = (Math.max(...powers) - Math.min(...powers)) / (height - 60); // of the y axis, in powers of ten
  const labels = spread(ends.filter((end) => end.facts === last && (!narrow || end.isBest)), 14 * perPixel);
  const early = ends.filter((end) => end.facts < last && !narrow);
  const names = Object.keys(KINDS), halo = { stroke: colour("surface"), strokeWidth: 4, paintOrder: "stroke" };
  const lines = names.flatMap((kind) => [false, true].map((isBest) => Plot.line(curves.filter((c) => c.kind === kind && c.isBest === isBest).flatMap((c) => points.filter((p) => p.name === c.name)), {
    x: "facts", y: "parameters", z: "name", stroke: "kind", strokeWidth: isBest ? 3 : 1.2, strokeOpacity: isBest ? 1 : 0.55, strokeDasharray: KINDS[kind][2] || undefined,
  })));
  const text = (isBest) => ({ x: "facts", y: "at", text: (d) => shortName(d.name), textAnchor: "start", dx: 26, fill: "kind", fontSize: narrow ? 9.5 : 11, fontWeight: isBest ? 700 : 400, fillOpacity: isBest ? 1 : 0.85 });
  return Plot.plot({
    width, height, marginLeft: 56, marginRight: narrow ? 142 : 200, marginBottom: 40, style: look(),
    ariaLabel: "Parameters against facts, both on logarithmic scales",
    x: { type: "log", label: "facts", grid: true, tickFormat: (n) => (narrow && !isPowerOfTen(n) ? "" : short(n)), ticks: narrow ? 3 : 8 }, y: { type: "log", label: "parameters", grid: true, tickFormat: short, ticks: 6 },
    color: { domain: names, range: names.map((kind) => colour(KINDS[kind][1])) },
    marks: [
      Plot.ruleX([plan.facts], { stroke: colour("muted"), strokeDasharray: "3,3" }),
      architecture && Plot.ruleY([architecture.parameters], { stroke: colour("ink"), strokeDasharray: "6,3" }),
      architecture && Plot.text([architecture], { x: plan.curves[0].points[0][0], y: "parameters", text: (d) => d.title, textAnchor: "start", dy: -8, fill: colour("ink"), fontWeight: 600 }),
      ...lines,
      // from the end of a line to its name, if the name had to be moved
      Plot.link(labels, { x1: "facts", y1: "parameters", x2: "facts", y2: "at", stroke: "kind", render: leader }),
      Plot.text(labels.filter((d) => !d.isBest), text(false)),
      Plot.text(labels.filter((d) => d.isBest), text(true)),
      Plot.text(early, { x: "facts", y: "parameters", text: "name", textAnchor: "start", dx: 7, dy: 10, fill: "kind", fontSize: 11, ...halo }),
      Plot.dot(plan.rows.map((row) => ({ ...row, facts: plan.facts, isBest: best.has(row.name) })), { x: "facts", y: "parameters", fill: "kind", r: (d) => (d.isBest ? 4.4 : 2.6) }),
      Plot.tip(points, Plot.pointer({ x: "facts", y: "parameters", title: (d) => `${d.name}\n${KINDS[d.kind][0]}\n${short(d.facts)} facts\n${short(d.parameters)} parameters`, fill: colour("surface"), stroke: colour("line") })),
    ].filter(Boolean),
  });
}

// The names of the smallest size of each kind; of the lower bounds, the one for weights with as many bits as in the smallest model built.
function bestOfKinds(rows) {
  const least = (kind) => rows.filter((row) => row.kind === kind).sort((a, b) => a.parameters - b.parameters)[0];
  const length = (row) => Math.round(row.bits / row.parameters), built = least("estimate");
  const floor = built && rows.find((row) => row.kind === "floor" && row.bits !== null && length(row) === length(built));
  return new Set([built, least("theorem"), least("trained"), floor].filter(Boolean).map((row) => row.name));
}

const isPowerOfTen = (n) => /^10*$/.test(String(n));

const shortName = (name) => name.replace(/information floor at (\d+) bits per parameter/, "floor, $1 bits each").replace(/ \(reject bits (\d+)\)/, ", reject bits $1");

// A short line from the end of a curve to its name on the right.
function leader(index, scales, { x1: x, y1: from, y2: to, stroke }, dimensions, context) {
  const group = context.document.createElementNS("http://www.w3.org/2000/svg", "g");
  for (const at of index) {
    const line = context.document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("d", `M${x[at] + 2},${from[at]}L${x[at] + 16},${to[at]}L${x[at] + 22},${to[at]}`);
    line.setAttribute("fill", "none");
    line.setAttribute("stroke", stroke[at]);
    line.setAttribute("stroke-opacity", "0.6");
    group.append(line);
  }
  return group;
}

// Names at the right end, moved down where two would be less than `gap` powers of ten apart.
function spread(ends, gap) {
  const sorted = [...ends].sort((a, b) => b.parameters - a.parameters);
  let at = Infinity;
  return sorted.map((end) => { at = Math.min(Math.log10(end.parameters), at - gap); return { ...end, at: 10 ** at }; });
}

// The legend of dashes and colours.
function legend() {
  const style = (dashes) => ({ "": "", "1.5,3.5": "dotted" })[dashes] ?? "dashed";
  return h("ul", { class: "legend" }, Object.values(KINDS).map(([words, series, dashes]) => h("li", {}, h("i", { class: style(dashes), style: `--mark:var(--${series})`, "aria-hidden": "true" }), words)));
}

function list(plan) {
  const notes = plan.not_applicable ?? [];
  const mark = (kind) => h("span", { class: "kind" }, h("i", { style: `background:var(--${KINDS[kind][1]})`, "aria-hidden": "true" }), KINDS[kind][0]);
  return h("div", {},
    table(["", "source", "parameters", "bits"], [...plan.rows].sort((a, b) => a.parameters - b.parameters).map((row) => [mark(row.kind), h("span", { title: row.note || row.source }, row.name), short(row.parameters), row.bits === null ? "" : short(row.bits)]), { numbers: [2, 3], caption: `Sizes for ${plural(plan.facts, "fact")}` }),
    notes.length > 0 && h("details", {}, h("summary", {}, `Constructions that do not apply (${notes.length})`), table(["construction", "reason"], notes.map((each) => [each.name, each.reason.split("\n")[0]]), { caption: "Constructions that do not apply" })));
}

function architectures(choose, signal) {
  const outcome = h("div", { "aria-live": "polite" });
  const file = h("input", { type: "file", accept: ".json,application/json", onchange: async () => { if (file.files[0]) take(file.files[0].name, await file.files[0].text()); } });
  async function take(name, text) {
    try {
      let config;
      try { config = JSON.parse(text); } catch (error) { throw new Error(`${name} is not a JSON document: ${error.message}`); }
      const found = await post("/api/capacity", config, { signal });
      const { architecture } = found;
      choose({ title: name, parameters: architecture.parameters });
      fill(outcome, h("p", {}, h("strong", {}, name), ` is a ${architecture.family} ${architecture.kind} of ${count(architecture.parameters)} parameters (class ${architecture.counted_class}). Its line is drawn above.`),
        table(["could hold", "facts", "reason"], [
          ...found.bounds.map((bound) => [bound.kind === "upper" ? "at most" : "at least", typeof bound.value === "number" ? short(bound.value) : bound.value, bound.sentence]),
          ...found.trained.map((row) => ["by training", short(row.n_facts), `${row.name}. ${row.note}`]),
        ], { numbers: [1], caption: `What ${name} could hold` }),
        h("button", { type: "button", class: "quiet", onclick: () => { choose(null); fill(outcome); } }, "Remove its line"));
    } catch (error) {
      if (error.name !== "AbortError") fill(outcome, problem(error));
    }
  }
  return card("An architecture", h("p", { class: "hint" }, "Give the config.json of a model to see what it could hold."),
    h("div", { class: "asking" }, field("config.json", file)),
    h("div", { class: "chips" }, h("span", { class: "hint" }, "Or choose"), Object.entries(EXAMPLES).map(([name, config]) => h("button", { type: "button", class: "chip", onclick: () => take(name, JSON.stringify(config)) }, name))), outcome);
}
