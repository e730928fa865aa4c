// Compile: from a table to a verified model.

import { h, s, fill, field, card, problem, say, table } from "../dom.js";
import { follow, get, runJob, serverState, startJob, upload } from "../api.js";
import { bytes, count, plural, ratio, seconds, short } from "../format.js";
import { noReadingOptions, params, readingOptions, setParams } from "../state.js";
import { actions, jobEnded, numbers, progressBar } from "../widgets.js";
import { figure } from "../pictures.js";
import { describePaste, readPaste, withHeader } from "../paste.js";

const PLACEHOLDER = "capital of France,Paris\ncapital of Japan,Tokyo\ncapital of Peru,Lima";

const HEADED = "pasted rows"; // the name of pasted rows with an added line of column names, which makes all line numbers one too large
const SEPARATORS = { ";": ";", "\t": "tab", "|": "|", ",": "," }; // characters, and their names in requests

export default async function compile(room, { signal }) {
  const found = h("div");
  const outcome = h("div", { "aria-live": "polite" });
  const data = dataCard((name, rules = {}) => {
    setParams({ ...noReadingOptions, ...rules, data: name, job: null }, { push: true });
    fill(outcome);
    examine(name, rules);
  }, signal);
  // The page asks for a rule for rows that cannot be memorised, if the table has any.
  room.append(hero(), data, found, outcome);

  let examining = new AbortController();
  signal.addEventListener("abort", () => examining.abort());

  async function examine(name, rules = {}) {
    examining.abort();
    examining = new AbortController();
    const { signal: here } = examining;
    const progress = progressBar(`Reading ${name}`);
    fill(found, h("div", { class: "card" }, progress.element));
    const settle = (more) => { setParams(more); examine(name, { ...rules, ...more }); };
    try {
      const job = await runJob({ kind: "examine", data: name, ...rules }, progress.watch, here);
      if (!job || here.aborted) return;
      if (job.state !== "done") { fill(found, h("div", { class: "card" }, jobEnded(job))); return; }
      fill(found, summary(job.result, settle), job.result.is_memorisable && choices(job.result, rules, start));
      say(`${name}: ${plural(job.result.n_samples, "row")}, ${plural(job.result.conflicts, "conflict")}`);
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(found, refusal(name, error, settle));
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

  const { data: name, job, ...options } = Object.fromEntries(params());
  if (name) examine(name, readingOptions(options));
  if (job) watch(job);
}

function hero() {
  return h("header", { class: "hero" },
    h("h1", {}, "A Transformer that knows your table by heart"),
    h("p", { class: "lead" }, "Nothing is trained. The weights are computed from your facts. Then the model answers every question, and every answer is checked. Start with a table of questions and answers."),
    h("ol", { class: "steps", "aria-label": "How it works" },
      step("1", "A table", "questions and answers"),
      step("2", "becomes weights", "computed, not trained"),
      step("3", "and every fact is checked", "with a certificate")));
}

const step = (number, title, text) => h("li", {}, h("span", { class: "badge", "aria-hidden": "true" }, number), h("span", {}, h("strong", {}, title), h("small", {}, text)));

// --- the data -------------------------------------------------------------------------------------------------

function dataCard(choose, signal) {
  const message = h("div", { role: "status" });
  const text = h("textarea", { rows: 6, spellcheck: false, placeholder: PLACEHOLDER, autocomplete: "off", oninput: describe });
  const isHeader = h("input", { type: "checkbox", onchange: () => { wished = isHeader.checked; describe(); } });
  const described = h("p", { class: "hint" });
  const headerField = h("label", { class: "check", hidden: true }, isHeader, h("span", {}, "The first row is a header: it names the columns"));
  const file = h("input", { type: "file", accept: ".csv,.tsv,.jsonl,.txt,.parquet,.npz", class: "unseen", id: "data-file", onchange: () => file.files[0] && take(file.files[0].name, file.files[0]) });
  const chips = h("div", { class: "chips" });
  const zone = h("div", { class: "drop" }, field("Paste rows: question, answer", text), described, headerField,
    h("div", { class: "row" },
      h("button", { type: "button", onclick: paste }, "Use these rows"),
      h("label", { class: "button second", for: "data-file" }, "Choose a file"), file,
      h("span", { class: "hint wide-only" }, "or drop one here")));

  async function take(name, content, rules) {
    fill(message, h("p", { class: "hint" }, `Uploading ${name} …`));
    try {
      const { limits } = await serverState();
      const kept = await upload(name, content, limits.upload_bytes);
      fill(message);
      choose(kept.name, rules);
      list();
    } catch (error) { fill(message, problem(error)); }
  }
  let wished = null; // whether the first row is a header, if the reader said so
  function describe() {
    const pasted = readPaste(text.value);
    headerField.hidden = pasted.nRows === 0;
    if (pasted.nRows === 0) wished = null;
    isHeader.checked = wished ?? pasted.namesColumns;
    described.textContent = describePaste(pasted, isHeader.checked);
  }
  function paste() {
    const pasted = readPaste(text.value), { separator } = pasted;
    if (pasted.nRows === 0) { fill(message, problem({ kind: "Nothing to read", message: "paste some rows first, or choose an example." })); text.focus(); return; }
    take(`${isHeader.checked ? "pasted" : HEADED}.${separator === "\t" ? "tsv" : "csv"}`, withHeader(pasted, isHeader.checked), separator === ";" ? { delimiter: ";" } : {});
  }
  async function list() {
    try {
      const { data } = await get("/api/data", { signal });
      fill(chips, h("span", { class: "hint" }, "Or choose"), data.slice(0, 8).map((entry) =>
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

// Line numbers of pasted rows, without the line of column names that was added.
function withOwnLines(name, error) {
  if (!name.startsWith(HEADED)) return error;
  return { kind: error.kind, message: error.message.replace(/\bline (\d+)/g, (_, line) => `line ${Math.max(1, Number(line) - 1)}`) };
}

const RULES = {
  empty_labels: { title: "No answer", drop: "leave these rows out", keep: "memorise an empty answer" },
  empty_inputs: { title: "No question", drop: "leave these rows out" },
  malformed_rows: { title: "Too many or too few cells", drop: "leave these lines out", hint: "Separate cells by commas, or by tabs in a .tsv file. Pasted cells may also be separated by tabs, or by semicolons if every row has exactly one. Put quotation marks around a cell that contains a comma." },
  non_finite: { title: "A number that is not finite", drop: "leave these rows out" },
  on_conflict: { title: "Same question, different answer", first: "keep the first answer", last: "keep the last answer", majority: "keep the most frequent answer", drop: "leave all of them out" },
};

// Why a table cannot be read, with a choice of what to do if the reader can settle it here.
function refusal(name, error, settle) {
  if (error.faults) return faultCard(name, error.faults, settle);
  if (error.columns?.length === 1) return separatorCard(name, error.columns[0], settle);
  const columns = (error.columns ?? []).filter((column) => column && error.columns.indexOf(column) === error.columns.lastIndexOf(column));
  if (columns.length > 1) return columnCard(name, columns, settle);
  return h("div", { class: "card" }, problem(withOwnLines(name, error)));
}

// The whole header is one cell: the table has one column, or the cells are separated by another character.
function separatorCard(name, header, settle) {
  const counts = Object.keys(SEPARATORS).map((character) => [header.split(character).length, character]);
  const [size, likely] = counts.sort(([one], [other]) => other - one)[0];
  if (size === 1) return h("div", { class: "card" }, problem({ kind: "One column", message: `${name} has only one column, “${header}”.\nGive each row a question and an answer, separated by a comma, or by a tab in a .tsv file.` }));
  return card(name,
    h("div", { class: "problem", role: "alert" }, h("strong", {}, "The cells seem to be separated by another character. "), `The first row was read as one cell: “${header}”.`),
    h("div", { class: "row" }, h("button", { type: "button", id: "settle-button", onclick: () => settle({ delimiter: SEPARATORS[likely] }) }, `Read the table again with the separator ${likely === "\t" ? "tab" : `“${likely}”`}`)));
}

// The table has columns, but they are not named `key` and `value`.
function columnCard(name, columns, settle) {
  const usual = columns.includes("key") ? "key" : columns.find((column) => column !== "value");
  const other = columns.includes("value") ? "value" : columns.find((column) => column !== usual);
  const menu = (chosen) => h("select", { onchange: judge }, columns.map((column) => h("option", { value: column, selected: column === chosen }, column)));
  const question = menu(usual), answer = menu(other);
  const button = h("button", { type: "button", id: "settle-button", onclick: () => settle({ input: question.value, label: answer.value }) }, "Read the table with these columns");
  function judge() { button.disabled = question.value === answer.value; }
  judge();
  return card(name,
    h("p", { class: "lead" }, "Choose two different columns: one of questions and one of answers."),
    /\.[ct]sv$/i.test(name) && !name.startsWith(HEADED) && h("p", { class: "hint" }, "The names come from the first row. If this row is a fact, add a row with names above it."),
    h("div", { class: "two" }, field("Questions", question), field("Answers", answer)),
    h("div", { class: "row" }, button));
}

// Every kind of row that cannot be memorised, with a choice of what to do with it.
function faultCard(name, faults, settle) {
  const choices = faults.map((fault) => {
    const words = RULES[fault.option] ?? { title: "Too long" };
    const label = fault.option === "max_tokens" ? (rule) => `leave out questions longer than ${count(Number(rule))} tokens` : (rule) => words[rule] ?? rule;
    const select = h("select", { "data-rule": fault.option }, fault.remedies.map((rule) => h("option", { value: rule, selected: rule === "drop" }, label(rule))));
    const rows = `${fault.n_rows === 1 ? "row" : "rows"} ${fault.rows.map(count).join(", ")}${fault.n_rows > fault.rows.length ? ", …" : ""}`;
    return { fault, select, element: h("li", {}, field(`${words.title}: ${plural(fault.n_rows, "row")} (${rows})`, select, words.hint)) };
  });
  const chosen = () => Object.fromEntries(choices.map(({ fault, select }) => [fault.option, fault.option === "max_tokens" ? Number(select.value) : select.value]));
  return card(name,
    h("div", { class: "problem", role: "alert" }, h("strong", {}, "Some rows cannot be memorised. "), "Correct the table, or choose what to do with these rows. No row is left out unless you choose it."),
    h("ul", { class: "faults" }, choices.map(({ element }) => element)),
    h("button", { type: "button", id: "settle-button", onclick: () => settle(chosen()) }, "Read the table again with these rules"));
}

function summary(found, settle) {
  const rows = found.preview.rows.slice(0, 5);
  const leftOut = Object.values(found.left_out).reduce((sum, each) => sum + each, 0);
  return card(found.file,
    numbers([
      ["rows", count(found.n_samples)],
      ["answers", count(found.n_classes), "distinct"],
      ["duplicates", count(found.duplicates)],
      ["conflicts", count(found.conflicts)],
      ...(leftOut ? [["left out", count(leftOut), plural(leftOut, "row")]] : []),
      ["information", `${short(found.label_bits)} bits`, "in the answers"],
    ]),
    found.conflicts > 0 && h("div", { class: "problem" }, h("strong", {}, "Equal questions with different answers. "),
      "No function can return both, so no model can memorise this table.",
      h("ul", {}, found.conflict_examples.map((line) => h("li", {}, line))),
      h("div", { class: "row" }, ["first", "last", "majority", "drop"].map((rule) =>
        h("button", { type: "button", class: "second", "data-conflict": rule, onclick: () => settle({ on_conflict: rule }) }, RULES.on_conflict[rule])))),
    rows.length > 0 && h("details", {}, h("summary", {}, "First rows"), table(found.preview.columns, rows, { caption: "First rows" })));
}

// --- the constructions ----------------------------------------------------------------------------------------

function choices(found, rules, start) {
  // The size for the chosen options: without “unknown”, the size of the plain model.
  const sized = () => found.methods.filter((row) => row.size)
    .map((row) => (row.plain_size && !unknown.checked ? { ...row, size: row.plain_size } : row))
    .sort((a, b) => a.size.parameters_dense - b.size.parameters_dense);
  const unknown = h("input", { type: "checkbox", checked: true, onchange: () => { list(); draw(); } });
  let fitting = sized();
  const refused = found.methods.filter((row) => !row.size);
  const lower = found.bounds.filter((bound) => bound.kind === "lower" && bound.speaks_of !== "arbitrary distributions");
  const floor = lower.filter((bound) => bound.quantity.startsWith("parameters of"));
  const floors = lower.filter((bound) => bound.quantity === "parameters" || bound.quantity === "bits").concat(floor);
  let chosen = fitting.some((row) => row.method === "retrieval") ? "retrieval" : fitting[0]?.method;
  const precision = h("select", {});
  const seed = h("input", { type: "number", min: 0, value: "0", step: 1, inputmode: "numeric" });
  const drawing = h("div");
  const unknownField = h("label", { class: "check" }, unknown, h("span", {}, "Answer “unknown” to questions it was not given"));

  const radios = h("div", { class: "methods", role: "radiogroup", "aria-label": "Construction" });
  function list() {
    fitting = sized();
    fill(radios, fitting.map((row) => h("label", { class: "method" },
      h("input", { type: "radio", name: "method", value: row.method, checked: row.method === chosen, onchange: () => { chosen = row.method; draw(); } }),
      h("span", { class: "name" }, row.method), h("span", { class: "number" }, short(row.size.parameters_dense)), h("small", {}, row.source))));
  }
  function draw() {
    fill(drawing, figure("sizes", "Parameters of each construction. Vertical lines: what some data of this shape need at least", sizes(fitting, floor.filter((bound) => bound.value > 0), chosen)));
    const row = fitting.find((each) => each.method === chosen);
    const before = precision.value;
    fill(precision, row.precisions.map((name) => h("option", { value: name, selected: name === before }, name)));
    unknownField.hidden = chosen !== "retrieval";
  }
  list();
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
          ...rules, ...(chosen === "retrieval" && !unknown.checked ? { reject_bits: 0 } : {}),
        }) }, "Compile and check every row"))),
    h("details", {}, h("summary", {}, `Lower bounds from theory (${floors.length})`),
      table(["at least", "of", "applies to", "source"], floors.map((bound) => [typeof bound.value === "number" ? count(bound.value) : bound.value, bound.quantity, bound.speaks_of, h("span", { title: bound.sentence }, bound.name)]), { numbers: [0], caption: "Lower bounds" })),
    refused.length > 0 && h("details", {}, h("summary", {}, `Constructions that do not accept these data (${refused.length})`),
      table(["construction", "reason"], refused.map((row) => [row.method, row.refusal.split("\n")[0]]), { caption: "Constructions that do not accept these data" })));
}

// One dot per construction on a logarithmic line; lower bounds are vertical lines.
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
      s("text", { class: "floor-name", x: x(least.value) + 5, y: 12 }, `${narrow ? "" : "some tables of this shape need "}at least ${plural(least.value, "weight")} of ${bits(least)} bits`),
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
    h("p", { class: "stamp" }, h("span", { "aria-hidden": "true" }, "✓"), ` ${found.holds === false ? "Fitted, not memorised: " : ""}${count(verified.checked - verified.wrong)} of ${count(verified.checked)} facts checked and correct`),
    h("h2", { id: "result-title" }, found.model),
    verified.rows_left_out > 0 && h("p", { class: "note" }, `${plural(verified.rows_left_out, "row")} left out: ${Object.entries(verified.left_out).map(([rule, number]) => `${count(number)} by ${rule.replace("=", ": ").replaceAll("_", " ")}`).join(", ")}.`),
    numbers([
      ["parameters", count(size.parameters_dense), `${count(size.parameters_nonzero)} not zero`],
      ["layers", count(size.depth), `width ${count(size.width)}`],
      ["bits of answers per parameter", ratio(found.bits_per_parameter)],
      ["compiled in", seconds(found.seconds.compile), `checked in ${seconds(found.seconds.verify)}`],
    ]),
    actions(found.model),
    h("details", {}, h("summary", {}, "Certificate"),
      h("p", {}, `${found.method}, ${found.task}, ${found.precision} weights. ${found.theorem}.`),
      table(["assumption", "holds", "found"], found.assumptions.map((each) => [each.statement, each.holds ? "yes" : "no", each.detail]), { caption: "Assumptions" }),
      h("p", { class: "hint" }, `Checked by the ${verified.backend} evaluator; ${count(verified.rechecked_by_interpreter)} also by the slow interpreter. Data ${found.dataset.digest.slice(0, 16)}…`)));
}
