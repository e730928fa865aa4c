// Compile: from a table to a verified model.

import { h, s, fill, field, card, problem, say, table } from "../dom.js";
import { follow, get, runJob, serverState, startJob, upload } from "../api.js";
import { bytes, count, plural, ratio, seconds, short } from "../format.js";
import { params, setParams } from "../state.js";
import { actions, jobEnded, numbers, progressBar } from "../widgets.js";
import { figure } from "../pictures.js";

const PLACEHOLDER = "capital of France,Paris\ncapital of Japan,Tokyo\ncapital of Peru,Lima";

export default async function compile(room, { signal }) {
  const found = h("div");
  const outcome = h("div", { "aria-live": "polite" });
  const data = dataCard((name) => { setParams({ data: name, job: null }, { push: true }); fill(outcome); examine(name); }, signal);
  room.append(hero(), data, found, outcome);

  let examining = new AbortController();
  signal.addEventListener("abort", () => examining.abort());

  async function examine(name) {
    examining.abort();
    examining = new AbortController();
    const { signal: here } = examining;
    const progress = progressBar(`Reading ${name}`);
    fill(found, h("div", { class: "card" }, progress.element));
    try {
      const job = await runJob({ kind: "examine", data: name }, progress.watch, here);
      if (!job || here.aborted) return;
      if (job.state !== "done") { fill(found, h("div", { class: "card" }, jobEnded(job))); return; }
      fill(found, summary(job.result), job.result.is_memorisable && choices(job.result, start));
      say(`${name}: ${plural(job.result.n_samples, "row")}, ${plural(job.result.conflicts, "conflict")}`);
    } catch (error) {
      if (error.name !== "AbortError") fill(found, h("div", { class: "card" }, problem(error)));
    }
  }

  async function start(request) {
    try {
      const job = await startJob(request);
      setParams({ job: job.id });
      await watch(job.id);
    } catch (error) {
      fill(outcome, h("div", { class: "card" }, problem(error)));
    }
  }

  async function watch(id) {
    const progress = progressBar("Compiling");
    fill(outcome, h("div", { class: "card", id: "running" }, progress.element));
    outcome.scrollIntoView({ block: "nearest", behavior: "smooth" });
    try {
      const job = await follow(id, progress.watch, signal);
      if (!job) return;
      if (job.state === "done") { fill(outcome, result(job.result)); say("Compiled and verified."); }
      else fill(outcome, h("div", { class: "card" }, jobEnded(job), h("p", {}, h("button", { type: "button", onclick: () => start(job.request) }, "Try again"))));
      outcome.scrollIntoView({ block: "nearest", behavior: "smooth" });
    } catch (error) {
      if (error.name !== "AbortError") { setParams({ job: null }); fill(outcome, h("div", { class: "card" }, problem(error))); }
    }
  }

  const { data: name, job } = Object.fromEntries(params());
  if (name) examine(name);
  if (job) watch(job);
}

function hero() {
  return h("header", { class: "hero" },
    h("h1", {}, "A Transformer that knows your table by heart"),
    h("p", { class: "lead" }, "Nothing is trained. The weights are computed from your facts, and then every fact is asked and checked. Give it a table of questions and answers."),
    h("ol", { class: "steps", "aria-label": "How it works" },
      step("1", "A table", "questions and answers"),
      step("2", "becomes weights", "computed, not trained"),
      step("3", "and every fact is checked", "with a certificate")));
}

const step = (number, title, text) => h("li", {}, h("span", { class: "badge", "aria-hidden": "true" }, number), h("span", {}, h("strong", {}, title), h("small", {}, text)));

// --- the data -------------------------------------------------------------------------------------------------

function dataCard(choose, signal) {
  const message = h("div", { role: "status" });
  const text = h("textarea", { rows: 6, spellcheck: false, placeholder: PLACEHOLDER, autocomplete: "off" });
  const file = h("input", { type: "file", accept: ".csv,.tsv,.jsonl,.txt,.parquet,.npz", class: "unseen", id: "data-file", onchange: () => file.files[0] && take(file.files[0].name, file.files[0]) });
  const chips = h("div", { class: "chips" });
  const zone = h("div", { class: "drop" }, field("Paste rows: question, answer", text),
    h("div", { class: "row" },
      h("button", { type: "button", onclick: paste }, "Use these rows"),
      h("label", { class: "button second", for: "data-file" }, "Choose a file"), file,
      h("span", { class: "hint wide-only" }, "or drop one here")));

  async function take(name, content) {
    fill(message, h("p", { class: "hint" }, `Taking ${name} …`));
    try {
      const { limits } = await serverState();
      const kept = await upload(name.replace(/[^\w .()+-]/g, "_"), content, limits.upload_bytes);
      fill(message);
      choose(kept.name);
      list();
    } catch (error) { fill(message, problem(error)); }
  }
  function paste() {
    const rows = text.value.trim();
    if (!rows) { fill(message, problem({ kind: "Nothing to read", message: "paste some rows first, or take an example." })); text.focus(); return; }
    const kind = rows.split("\n")[0].includes("\t") ? "tsv" : "csv";
    const header = /^"?key"?\s*[,\t]/i.test(rows) ? "" : `key${kind === "csv" ? "," : "\t"}value\n`;
    take(`pasted.${kind}`, `${header}${rows}\n`);
  }
  async function list() {
    try {
      const { data } = await get("/api/data", { signal });
      fill(chips, h("span", { class: "hint" }, "Or take"), data.slice(0, 8).map((entry) =>
        h("button", { type: "button", class: "chip", onclick: () => choose(entry.name) }, entry.name, h("small", {}, bytes(entry.bytes)))));
    } catch (error) { if (error.name !== "AbortError") fill(message, problem(error)); }
  }
  for (const kind of ["dragenter", "dragover"]) zone.addEventListener(kind, (event) => { event.preventDefault(); zone.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) zone.addEventListener(kind, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    const dropped = event.dataTransfer.files[0];
    if (dropped) take(dropped.name, dropped);
  });
  list();
  return card("Your facts", zone, chips, message);
}

function summary(found) {
  const rows = found.preview.rows.slice(0, 5);
  return card(found.file,
    numbers([
      ["rows", count(found.n_samples)],
      ["answers", count(found.n_classes), "different ones"],
      ["duplicates", count(found.duplicates)],
      ["conflicts", count(found.conflicts)],
      ["information", `${short(found.label_bits)} bits`, "in the answers"],
    ]),
    found.conflicts > 0 && h("div", { class: "problem" }, h("strong", {}, "Equal questions with different answers. "),
      "No function can return both, so nothing can memorise this table.",
      h("ul", {}, found.conflict_examples.map((line) => h("li", {}, line)))),
    rows.length > 0 && h("details", {}, h("summary", {}, "First rows"), table(found.preview.columns, rows, { caption: "First rows" })));
}

// --- the constructions ----------------------------------------------------------------------------------------

function choices(found, start) {
  const fitting = found.methods.filter((row) => row.size).sort((a, b) => a.size.parameters_dense - b.size.parameters_dense);
  const refused = found.methods.filter((row) => !row.size);
  const floor = found.bounds.filter((bound) => bound.kind === "lower" && bound.quantity.startsWith("parameters of"));
  const floors = found.bounds.filter((bound) => bound.kind === "lower" && (bound.quantity === "parameters" || bound.quantity === "bits")).concat(floor);
  let chosen = fitting.some((row) => row.method === "retrieval") ? "retrieval" : fitting[0]?.method;
  const precision = h("select", {});
  const unknown = h("input", { type: "checkbox", checked: true });
  const seed = h("input", { type: "number", min: 0, value: "0", step: 1, inputmode: "numeric" });
  const drawing = h("div");
  const unknownField = h("label", { class: "check" }, unknown, h("span", {}, "Answer “unknown” to questions it was not given"));

  function draw() {
    fill(drawing, figure("sizes", "Parameters of each construction, beside what some data of this shape need", sizes(fitting, floor, chosen)));
    const row = fitting.find((each) => each.method === chosen);
    fill(precision, row.precisions.map((name) => h("option", { value: name }, name)));
    unknownField.hidden = chosen !== "retrieval";
  }
  const radios = h("div", { class: "methods", role: "radiogroup", "aria-label": "Construction" }, fitting.map((row) => h("label", { class: "method" },
    h("input", { type: "radio", name: "method", value: row.method, checked: row.method === chosen, onchange: () => { chosen = row.method; draw(); } }),
    h("span", { class: "name" }, row.method), h("span", { class: "number" }, short(row.size.parameters_dense)), h("small", {}, row.source))));
  draw();
  return card("How large would it be?",
    h("p", { class: "lead" }, "Each row is one way to turn these facts into weights. Sizes are estimates; nothing is built yet."),
    drawing,
    h("div", { class: "two" },
      h("div", {}, radios),
      h("div", { class: "stack" },
        field("Kind of weights", precision), field("Seed", seed), unknownField,
        h("button", { type: "button", class: "large", id: "compile-button", onclick: () => start({
          kind: "compile", data: found.file, method: chosen, precision: precision.value, seed: Math.max(0, Math.floor(Number(seed.value) || 0)),
          ...(chosen === "retrieval" && unknown.checked ? { reject_bits: 16 } : {}),
        }) }, "Compile and check every row"))),
    h("details", {}, h("summary", {}, `What theory says (${floors.length} lower bounds)`),
      table(["at least", "of", "speaks of", "by"], floors.map((bound) => [typeof bound.value === "number" ? count(bound.value) : bound.value, bound.quantity, bound.speaks_of, h("span", { title: bound.sentence }, bound.name)]), { numbers: [0], caption: "Lower bounds" })),
    refused.length > 0 && h("details", {}, h("summary", {}, `Not for these data (${refused.length})`),
      table(["construction", "because"], refused.map((row) => [row.method, row.refusal.split("\n")[0]]), { caption: "Constructions that do not take these data" })));
}

// Dots on a logarithmic line, one construction each, with the floors as lines.
function sizes(rows, floors, chosen) {
  const narrow = innerWidth < 560; // on a phone the picture is drawn smaller, with fewer ticks, instead of scrolling
  const width = narrow ? 470 : 860, line = 30, left = narrow ? 186 : 215, right = narrow ? 62 : 70, top = 42, height = top + rows.length * line + 16;
  const values = [...rows.map((row) => row.size.parameters_dense), ...floors.map((bound) => bound.value)];
  const low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(Math.max(...values)));
  const x = (value) => left + (width - left - right) * (Math.log10(value) - low) / Math.max(1, high - low);
  const powers = Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at)).filter((_, at) => !narrow || at % 2 === 0);
  const bits = (bound) => Number(bound.quantity.match(/\d+/)[0]);
  const least = [...floors].sort((a, b) => bits(b) - bits(a))[0];
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: narrow ? "drawn sizes narrow" : "drawn sizes", "aria-label": `Parameters: ${rows.map((row) => `${row.method} ${short(row.size.parameters_dense)}`).join(", ")}.` },
    powers.map((power) => [s("line", { class: "grid", x1: x(power), x2: x(power), y1: top - 8, y2: height - 8 }), s("text", { class: "tick", x: x(power), y: top - 14, "text-anchor": "middle" }, short(power))]),
    least && [
      s("rect", { class: "below", x: left, y: top - 8, width: Math.max(0, x(least.value) - left), height: height - top }),
      s("line", { class: "floor", x1: x(least.value), x2: x(least.value), y1: top - 8, y2: height - 8 }),
      s("text", { class: "floor-name", x: x(least.value) + 5, y: 12 }, narrow ? `at least ${count(least.value)} weights of ${bits(least)} bits` : `such tables do not fit in fewer than ${count(least.value)} weights of ${bits(least)} bits`),
      s("line", { class: "leader", x1: x(least.value), x2: x(least.value), y1: 4, y2: top - 26 }),
    ],
    rows.map((row, at) => {
      const y = top + at * line + 14, value = row.size.parameters_dense, here = row.method === chosen;
      return s("g", { class: here ? "row chosen" : "row" },
        s("text", { class: "name", x: left - 14, y: y + 4, "text-anchor": "end" }, row.method),
        s("line", { class: "stem", x1: left, x2: x(value), y1: y, y2: y }),
        s("circle", { cx: x(value), cy: y, r: here ? 7 : 5 }),
        s("text", { class: "value", x: x(value) + 12, y: y + 4 }, short(value)));
    }));
}

// --- the result -----------------------------------------------------------------------------------------------

function result(found) {
  const { size, verified } = found;
  return h("section", { class: "card result", "aria-labelledby": "result-title" },
    h("p", { class: "stamp" }, h("span", { "aria-hidden": "true" }, "✓"), ` ${found.holds === false ? "Fitted, not memorised: " : ""}${count(verified.checked - verified.wrong)} of ${count(verified.checked)} facts checked and right`),
    h("h2", { id: "result-title" }, found.model),
    numbers([
      ["parameters", count(size.parameters_dense), `${count(size.parameters_nonzero)} not zero`],
      ["layers", count(size.depth), `width ${count(size.width)}`],
      ["bits per parameter", ratio(found.bits_per_parameter), "of answers"],
      ["compiled in", seconds(found.seconds.compile), `checked in ${seconds(found.seconds.verify)}`],
    ]),
    actions(found.model),
    h("details", {}, h("summary", {}, "Certificate"),
      h("p", {}, `${found.method}, ${found.task}, ${found.precision} weights. ${found.theorem}.`),
      table(["assumption", "holds", "as found"], found.assumptions.map((each) => [each.statement, each.holds ? "yes" : "no", each.detail]), { caption: "Assumptions" }),
      h("p", { class: "hint" }, `Checked by the ${verified.backend} evaluator; ${count(verified.rechecked_by_interpreter)} again by the slow interpreter. Data ${found.dataset.digest.slice(0, 16)}…`)));
}
