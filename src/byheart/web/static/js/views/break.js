// Break it: change a weight, check every fact again, and see which facts the weight holds.

import { h, s, fill, field, card, problem, say, table } from "../dom.js";
import { get, post, runJob } from "../api.js";
import { count, plural, seconds } from "../format.js";
import { params, setParams } from "../state.js";
import { jobEnded, modelChoice, progressBar } from "../widgets.js";
import { frame, heat, makeTip } from "../pictures.js";

const path = (model) => `/api/models/${encodeURIComponent(model)}`;

// An edit in the address: matrix~row~column~b26 flips a bit, …~v3.5 sets a value.
const written = (edit) => `${edit.matrix}~${edit.row}~${edit.column}~${edit.power !== undefined ? `b${edit.power}` : `v${edit.value}`}`;
function read(text) {
  const [matrix, row, column, change] = text.split("~");
  if (!change) return null;
  const where = { matrix, row: Number(row), column: Number(column) };
  return change[0] === "b" ? { ...where, power: Number(change.slice(1)) } : { ...where, value: change.slice(1) };
}

export default async function breaking(room, { signal }) {
  room.append(h("header", { class: "hero small" }, h("h1", {}, "Break it"),
    h("p", { class: "lead" }, "Flip one bit of one weight. The model then answers every question again, and the page lists the facts that broke.")));
  const choice = await modelChoice(room, () => { edits = []; changed(); start(); });
  if (!choice || signal.aborted) return;

  let edits = (params().get("edits") ?? "").split(";").filter(Boolean).map(read).filter(Boolean);
  const fact = h("input", { type: "text", autocomplete: "off", spellcheck: false, maxlength: 2000, value: params().get("q") ?? "" });
  const forgetting = h("button", { type: "button", class: "second", onclick: forget }, "Forget this fact");
  const form = h("form", { class: "asking", onsubmit: (event) => { event.preventDefault(); setParams({ q: fact.value }); showFact(); } },
    choice.control, field("Fact", fact), h("button", { type: "submit" }, "Show its weights"), forgetting);
  const held = h("div"), any = h("div"), damage = h("section", { class: "card damage", "aria-live": "polite", "aria-label": "What broke" }), forgotten = h("div", { "aria-live": "polite" });
  room.append(h("div", { class: "card" }, form), damage, forgotten, held, any);

  let verifying = new AbortController();
  signal.addEventListener("abort", () => verifying.abort());

  function change(edit) {
    const same = edits.findIndex((each) => written(each) === written(edit));
    if (same >= 0 && edit.power !== undefined) edits.splice(same, 1); else edits.push(edit);
    changed();
  }
  function undo(at) { edits.splice(at, 1); changed(); }

  async function changed() {
    setParams({ edits: edits.map(written).join(";") });
    markBits(room, edits);
    verifying.abort();
    verifying = new AbortController();
    const { signal: here } = verifying;
    if (edits.length === 0) { fill(damage, h("p", { class: "stamp" }, h("span", { "aria-hidden": "true" }, "✓"), " No weight has been changed. Nothing is broken.")); return; }
    const progress = progressBar("Checking every fact again");
    fill(damage, list(), progress.element);
    try {
      const job = await runJob({ kind: "break", model: choice.name(), edits }, progress.watch, here);
      if (!job || here.aborted) return;
      if (job.state !== "done") { fill(damage, list(), jobEnded(job)); return; }
      fill(damage, list(job.result.edits), verdict(job.result));
      say(job.result.wrong ? `${plural(job.result.wrong, "fact")} broke: ${job.result.broken.slice(0, 3).map((each) => each.input).join(", ")}` : "No fact broke.");
    } catch (error) {
      if (error.name !== "AbortError") fill(damage, list(), problem(error));
    }
  }

  function list(done = []) {
    return h("div", { class: "edits" },
      h("div", { class: "row spread" }, h("h2", {}, plural(edits.length, "changed weight")), h("button", { type: "button", class: "quiet", id: "undo-all", onclick: () => { edits = []; changed(); } }, edits.length > 1 ? "Undo all" : "Undo")),
      h("ul", {}, edits.map((edit, at) => h("li", {}, h("code", {}, `${edit.matrix}[${edit.row}, ${edit.column}]`),
        edit.power !== undefined ? ` bit 2^${edit.power} flipped` : ` set to ${edit.value}`,
        done[at] && h("span", { class: "hint" }, ` ${done[at].before} → ${done[at].after}`),
        edits.length > 1 && h("button", { type: "button", class: "quiet", onclick: () => undo(at), "aria-label": `Undo the change of ${edit.matrix} ${edit.row} ${edit.column}` }, "undo")))));
  }

  async function showFact() {
    const text = fact.value;
    if (!text) { fill(held); return; }
    try {
      const found = await post(`${path(choice.name())}/fact`, { text }, { signal });
      fill(held, found.cells.length ? factCard(found, change) : spreadCard(found));
      markBits(room, edits);
    } catch (error) {
      if (error.name === "AbortError") return;
      const known = error.kind === "UsageError" && /where a fact lives/.test(error.message);
      fill(held, known ? h("p", { class: "note" }, "This construction spreads its facts over all layers. Choose any weight below.") : h("div", { class: "card" }, problem(error)));
    }
  }

  async function forget() {
    if (!fact.value) { fact.focus(); return; }
    const progress = progressBar(`Compiling again without “${fact.value}”`);
    fill(forgotten, h("div", { class: "card" }, progress.element));
    try {
      const job = await runJob({ kind: "forget", model: choice.name(), text: fact.value }, progress.watch, signal);
      if (!job) return;
      fill(forgotten, job.state === "done" ? difference(job.result) : h("div", { class: "card" }, jobEnded(job)));
    } catch (error) {
      if (error.name !== "AbortError") fill(forgotten, h("div", { class: "card" }, problem(error)));
    }
  }

  async function start() {
    if (!fact.value) {
      const { questions } = await get(`${path(choice.name())}/examples`, { signal }).catch(() => ({ questions: [] }));
      fact.value = questions[0] ?? "";
      setParams({ q: fact.value });
    }
    fill(any, anyWeight(choice.name(), change, signal));
    showFact();
  }
  changed();
  await start();
}

function verdict(found) {
  const rest = found.checked - found.wrong;
  return h("div", {},
    h("p", { class: found.wrong ? "stamp bad" : "stamp" }, h("span", { "aria-hidden": "true" }, found.wrong ? "✗" : "✓"),
      found.wrong ? ` ${plural(found.wrong, "fact")} broke, ${count(rest)} still correct` : ` All ${count(found.checked)} facts are still correct. None of them needs this bit.`),
    h("p", { class: "hint" }, `All ${count(found.checked)} facts were checked again, in ${seconds(found.certificate.seconds)}.`),
    found.broken.length > 0 && table(["fact", "correct answer", "answer now"], found.broken.slice(0, 200).map((each) => [each.input, each.expected, each.got ?? h("span", { class: "unknown" }, "unknown")]), { caption: "Broken facts" }),
    found.broken.length > 200 && h("p", { class: "hint" }, `The first 200 of ${count(found.wrong)} are shown.`));
}

// --- the weights of one fact ------------------------------------------------------------------------------------

function factCard(found, change) {
  return card("The weights that hold this fact",
    h("p", {}, h("strong", {}, found.fact), " → ", h("strong", { class: "known" }, found.answer), h("span", { class: "hint" }, ` is read from the sum of ${plural(found.cells.length, "word")}, each stored in one weight. The outlined bits hold the answer. Click a bit to flip it.`)),
    found.cells.slice(0, 16).map((cell) => h("div", { class: "weight" },
      h("div", { class: "row spread" }, h("code", {}, `${cell.tensor}[${cell.row}, ${cell.column}]`), h("span", { class: "value" }, cell.value)),
      bitStrip({ matrix: cell.tensor, row: cell.row, column: cell.column }, cell.binary, new Set(cell.label_powers ?? []), change))),
    found.sharing && h("p", { class: "hint" }, found.sharing.length ? `These weights also hold other facts: ${found.sharing.slice(0, 6).join(", ")}${found.sharing.length > 6 ? `, and ${count(found.sharing.length - 6)} more` : ""}.` : "These weights hold none of the other facts that were compared."),
    found.data && h("p", { class: "hint" }, `Compared: the ${plural(found.data.n_answered, "fact")} of the data file that the model answers as the file does.${found.data.is_model_data === false ? " The file does not contain the data from which the model was compiled, so more facts may share these weights." : ""}${found.in_data === "missing" ? " This question is not in the file." : ""}`));
}

// A theorem's model: the layers of each lemma in place of single weights.
function spreadCard(found) {
  const layers = (each) => (each.layer === each.last_layer ? `layer ${each.layer}` : `layers ${each.layer} to ${each.last_layer}`);
  return card("The layers that hold this fact",
    h("p", {}, h("strong", {}, found.fact), " → ", h("strong", { class: "known" }, found.answer), h("span", { class: "hint" }, " is spread over these layers, counted from 0. Choose any weight below.")),
    table(["layers", "lemma", "facts that share them"], found.locations.map((each) => [layers(each), each.lemma, count(each.sharing.length)]), { numbers: [2], caption: "Where the fact is" }));
}

function bitStrip(where, binary, marked, change) {
  const powers = new Set(binary.powers), ends = [...marked, binary.top ?? 0, binary.lowest ?? 0];
  const top = Math.max(...ends, 8), lowest = Math.max(Math.min(...ends), top - 255);
  const bits = [];
  for (let power = top; power >= lowest; power -= 1) {
    const one = powers.has(power);
    bits.push(h("button", { type: "button", class: `bit${one ? " one" : ""}${marked.has(power) ? " marked" : ""}`, "data-edit": written({ ...where, power }), "data-value": one ? "1" : "0",
      "aria-label": `bit 2^${power}, now ${one ? 1 : 0}${marked.has(power) ? ", of the answer" : ""}`, title: `2^${power}`, onclick: () => change({ ...where, power }) }, one ? "1" : "0"));
  }
  return h("div", { class: "bits", role: "group", "aria-label": `Bits of ${where.matrix} ${where.row} ${where.column}` }, bits);
}

function markBits(room, edits) {
  const changed = new Set(edits.map(written));
  for (const bit of room.querySelectorAll("button.bit")) {
    const turned = changed.has(bit.dataset.edit);
    bit.classList.toggle("turned", turned);
    const value = turned ? 1 - Number(bit.dataset.value) : Number(bit.dataset.value);
    bit.textContent = String(value);
    bit.setAttribute("aria-pressed", String(turned));
  }
}

// --- any weight ---------------------------------------------------------------------------------------------------

function anyWeight(model, change, signal) {
  const chosen = h("div"), drawing = frame("The matrix");
  const select = h("select", { onchange: () => show(0, 0) });
  const row = h("input", { type: "number", min: 0, value: "0", onchange: () => pick(Number(row.value), Number(column.value)) });
  const column = h("input", { type: "number", min: 0, value: "0", onchange: () => pick(Number(row.value), Number(column.value)) });
  const content = h("div", {}, h("div", { class: "asking" }, field("Matrix", select), field("Row", row), field("Column", column)), drawing, chosen);
  const details = h("details", { class: "card", ontoggle: () => { if (details.open && !select.children.length) load(); } }, h("summary", {}, h("h2", {}, "Any weight")), content);

  async function load() {
    try {
      const { matrices } = await get(`${path(model)}/weights`, { signal });
      fill(select, matrices.map((each) => h("option", { value: each.matrix }, `${each.matrix} · ${each.shape.join(" × ")}`)));
      await show(0, 0);
    } catch (error) { if (error.name !== "AbortError") fill(chosen, problem(error)); }
  }
  async function show(r, c) {
    const matrix = select.value;
    fill(drawing, h("span", { class: "hint" }, "reading …")); // the picture of another matrix must not be clicked as this one
    try {
      const found = await get(`${path(model)}/weights/${encodeURIComponent(matrix)}?row=${r}&column=${c}`, { signal });
      if (matrix === select.value) fill(drawing, matrixPicture(found, pick));
    } catch (error) { if (error.name !== "AbortError") fill(chosen, problem(error)); }
  }
  async function pick(r, c) {
    row.value = r;
    column.value = c;
    try {
      const found = await get(`${path(model)}/weights/${encodeURIComponent(select.value)}/${r}/${c}`, { signal });
      const where = { matrix: found.matrix, row: found.row, column: found.column };
      const value = h("input", { type: "text", value: found.value.replaceAll(",", ""), inputmode: "decimal" });
      fill(chosen, h("div", { class: "weight" },
        h("div", { class: "row spread" }, h("code", {}, `${where.matrix}[${where.row}, ${where.column}]`), h("span", { class: "value" }, found.value)),
        bitStrip(where, found.binary, new Set(), change),
        h("form", { class: "asking", onsubmit: (event) => { event.preventDefault(); change({ ...where, value: value.value }); } }, field("Or set it to", value), h("button", { type: "submit" }, "Set"))));
    } catch (error) { if (error.name !== "AbortError") fill(chosen, problem(error)); }
  }
  return details;
}

function matrixPicture(found, pick) {
  const { values, row, column, shape } = found, rows = values.length, columns = values[0]?.length ?? 0, cell = Math.min(22, 860 / Math.max(1, columns));
  const largest = Math.max(1, ...values.flat().map(Math.abs));
  const host = h("div", { class: "heat" });
  const picture = s("svg", { viewBox: `0 0 ${Math.max(240, columns * cell)} ${rows * cell}`, style: `max-width:${Math.max(240, columns * cell)}px`, role: "img", class: "drawn", "aria-label": `${found.matrix}, rows ${row} to ${row + rows - 1} of ${shape[0]}, columns ${column} to ${column + columns - 1} of ${shape[1]}.` },
    values.flatMap((line, r) => line.map((value, c) => s("rect", { x: c * cell, y: r * cell, width: cell - 1, height: cell - 1, style: `fill:${heat(value, largest)}`, "data-at": `${row + r},${column + c},${value}` }))));
  host.append(picture);
  const tip = makeTip(host);
  picture.addEventListener("pointermove", (event) => {
    const at = event.target.dataset?.at?.split(",");
    if (at) tip.show(event, `[${at[0]}, ${at[1]}] = ${Number(at[2]).toLocaleString("en", { maximumSignificantDigits: 12 })}`); else tip.hide();
  });
  picture.addEventListener("pointerleave", () => tip.hide());
  picture.addEventListener("click", (event) => { const at = event.target.dataset?.at?.split(","); if (at) pick(Number(at[0]), Number(at[1])); });
  return host;
}

// --- forgetting -----------------------------------------------------------------------------------------------------

function difference(found) {
  const title = `Without “${found.fact}”`;
  if (!found.same_shape) {
    return card(title, h("p", {}, `Compiled without it, the network has another shape: ${count(found.size_without.parameters_dense)} parameters instead of ${count(found.size.parameters_dense)}. So every weight differs.`));
  }
  return card(title,
    h("p", { class: "stamp" }, `${plural(found.n_changed, "weight")} of ${count(found.n_weights)} ${found.n_changed === 1 ? "differs" : "differ"}`),
    h("p", {}, "The same data were compiled twice with the same seed: once with this fact and once without it. ", `The other ${count(found.verified.checked)} facts were checked: ${count(found.verified.wrong)} wrong. Asked for the fact, it now answers `, h("strong", { class: found.answer_without === null ? "unknown" : "known" }, found.answer_without ?? "unknown"), "."),
    table(["weight", "with", "without"], found.changes.slice(0, 100).map((each) => [h("code", {}, `${each.matrix}[${each.row}, ${each.column}]`), each.before, each.after]), { numbers: [1, 2], caption: "Weights that differ" }),
    found.n_changed > 100 && h("p", { class: "hint" }, `The first 100 of ${count(found.n_changed)} are shown.`));
}
