// One picture for every kind of stage in the computation of an answer.

import { s } from "./dom.js";
import { exactly } from "./format.js";

const WIDTH = 860;

export function stagePicture(trace, stage, fact) {
  const draw = { codes: tokens, fold: tokens, mix: mixing, table: rows, lookup: line, extract: waves, sum: addition, label: bits }[stage.kind] ?? courses;
  return draw(trace, stage, fact) ?? courses(trace, stage);
}

const picture = (height, label, ...children) => s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label, class: "drawn stage" }, children);
const text = (x, y, words, attributes = {}) => s("text", { x, y, ...attributes }, words);
const visible = (token) => (token.kind === "pad" ? "·" : token.kind === "extra" ? "★" : token.text === " " ? "␣" : token.text);
const last = (stream) => stream[stream.length - 1];

// The tokens, and the numbers of the residual stream at each.
function tokens(trace, stage) {
  const { stream } = trace.layers[stage.last + 1];
  if (stream.length !== trace.tokens.length) return null;
  const channels = trace.channels.map((channel, at) => ({ ...channel, at })).filter(({ at }) => stream.some((token) => Number(token[at]) !== 0)).slice(0, 6);
  const cell = Math.min(64, (WIDTH - 90) / trace.tokens.length), left = 86, high = 92;
  return picture(60 + channels.length * (high + 8), `${stage.title}: ${trace.tokens.length} tokens.`,
    trace.tokens.map((token, at) => s("g", { class: token.kind === "pad" ? "pad" : "" },
      s("rect", { class: "tile", x: left + at * cell + 1, y: 6, width: cell - 2, height: 34, rx: 4 }),
      text(left + at * cell + cell / 2, 28, visible(token), { "text-anchor": "middle", class: "token" }))),
    channels.map(({ name, at }, row) => {
      const values = stream.map((token) => Number(token[at])), largest = Math.max(...values.map(Math.abs)), base = 60 + row * (high + 8) + high - 8;
      return s("g", {}, text(left - 10, base - high / 2 + 12, name, { "text-anchor": "end", class: "name" }), s("line", { class: "grid", x1: left, x2: left + cell * values.length, y1: base, y2: base }),
        values.map((value, token) => s("rect", { class: value < 0 ? "bar minus" : trace.tokens[token].kind === "pad" ? "bar faint" : "bar", x: left + token * cell + 3, width: Math.max(2, cell - 6), y: base - (high - 16) * Math.abs(value) / largest, height: Math.max(1, (high - 16) * Math.abs(value) / largest), rx: 2 },
          s("title", {}, `${visible(trace.tokens[token])}: ${name} = ${exactly(stream[token][at])}`))));
    }));
}

// All tokens flow into the last one.
function mixing(trace, stage) {
  const before = trace.layers[stage.first].stream, after = last(trace.layers[stage.last + 1].stream);
  if (before.length !== trace.tokens.length) return null;
  const changed = trace.channels.map((channel, at) => ({ ...channel, at })).filter(({ at }) => Number(after[at]) !== Number(last(before)[at])).slice(0, 3);
  const cell = Math.min(64, (WIDTH - 90) / trace.tokens.length), left = 60, y = 150, goal = left + (trace.tokens.length - 0.5) * cell;
  return picture(262, `${stage.title}: the codes of ${trace.tokens.length} tokens are added up.`,
    trace.tokens.map((token, at) => {
      const x = left + (at + 0.5) * cell, rise = Math.min(128, 26 + (goal - x) * 0.22);
      return s("path", { class: token.kind === "pad" ? "flow faint" : "flow", d: `M${x},${y} C${x},${y - rise} ${goal},${y - rise} ${goal},${y}` });
    }),
    trace.tokens.map((token, at) => s("g", { class: token.kind === "pad" ? "pad" : "" },
      s("rect", { class: at === trace.tokens.length - 1 ? "tile chosen" : "tile", x: left + at * cell + 1, y, width: cell - 2, height: 34, rx: 4 }),
      text(left + (at + 0.5) * cell, y + 22, visible(token), { "text-anchor": "middle", class: "token" }))),
    changed.map(({ name, at }, row) => text(WIDTH - 16, y + 62 + row * 24, `${name} = ${exactly(after[at])}`, { "text-anchor": "end", class: "value strong" })));
}

// A table: its rows, and the active one.
function rows(trace, stage, fact) {
  const { row, n_rows: count } = stage.details;
  if (row === null || row === undefined) return null;
  const shown = Math.min(count, 96), first = Math.max(0, Math.min(count - shown, row - Math.floor(shown / 2))), columns = 16, cell = 26, left = 20, top = 34;
  const cells = fact?.cells?.filter((each) => each.layer === stage.last) ?? [];
  const height = Math.max(top + Math.ceil(shown / columns) * cell + 14, top + 30 + cells.length * 54);
  return picture(height, `${stage.title}: row ${row} of ${count} is active.`,
    text(left, 18, `row ${row} of ${count}`, { class: "name strong" }),
    Array.from({ length: shown }, (_, at) => {
      const number = first + at, x = left + (at % columns) * cell, y = top + Math.floor(at / columns) * cell;
      return s("g", { class: number === row ? "slot fired" : "slot" }, s("rect", { x, y, width: cell - 4, height: cell - 4, rx: 4 }, s("title", {}, `row ${number}${number === row ? " is active" : " is not active"}`)),
        number === row && text(x + (cell - 4) / 2, y + 15, String(number), { "text-anchor": "middle" }));
    }),
    cells.length > 0 && [s("path", { class: "flow", d: `M${left + ((row - first) % columns) * cell + 11},${top + Math.floor((row - first) / columns) * cell} V${top - 8} H452 Q460,${top - 8} 460,${top} V${top + 21} Q460,${top + 29} 468,${top + 29} h6` }), text(480, 18, "the words of this row", { class: "name" }),
      cells.slice(0, 6).map((each, at) => word(each, 480, top + 6 + at * 54, trace, fact))]);
}

// The bits of one weight; those of this fact's answer are marked.
function word(cell, x, y) {
  const powers = new Set(cell.binary.powers), marked = new Set(cell.label_powers ?? []);
  const lowest = Math.min(cell.binary.lowest ?? 0, ...(cell.label_powers ?? [])), top = Math.max(cell.binary.top ?? 0, ...(cell.label_powers ?? []), lowest + 8);
  const n = top - lowest + 1, size = Math.min(9, 360 / n);
  return s("g", {}, text(x, y + 8, cell.value, { class: "value" }),
    Array.from({ length: n }, (_, at) => { const power = top - at;
      return s("rect", { class: `bit${powers.has(power) ? " one" : ""}${marked.has(power) ? " marked" : ""}`, x: x + at * size, y: y + 15, width: size - 1.2, height: 16, rx: 1.5 }, s("title", {}, `bit 2^${power}: ${powers.has(power) ? 1 : 0}`)); }));
}

// The words that were read, one above the other, and their sum.
function addition(trace, stage, fact) {
  if (!fact?.cells?.length) return null;
  const high = 46, height = 40 + (fact.cells.length + 1) * high;
  return picture(height, "The words that were read are added up.",
    text(20, 18, "the words that were read", { class: "name" }),
    fact.cells.slice(0, 12).map((cell, at) => [word(cell, 190, 26 + at * high), text(170, 26 + at * high + 26, `table ${at + 1}`, { class: "name", "text-anchor": "end" })]),
    s("line", { class: "axis", x1: 190, x2: 600, y1: 30 + fact.cells.length * high, y2: 30 + fact.cells.length * high }),
    text(190, 52 + fact.cells.length * high, `x = ${exactly(last(trace.layers[stage.last + 1].stream)[0])}`, { class: "value strong" }),
    text(620, 52, "marked: the field", { class: "hint" }), text(620, 70, "of this question", { class: "hint" }));
}

// The bits of the answer.
function bits(trace, stage) {
  const { bits: found } = stage.details;
  if (!found) return null;
  const size = Math.min(44, (WIDTH - 60) / found.length), value = found.reduce((total, bit) => 2 * total + bit, 0);
  return picture(150, `The bits ${found.join("")} are the number ${value}.`,
    found.map((bit, at) => s("g", { class: bit ? "digit one" : "digit" }, s("rect", { x: 24 + at * size, y: 14, width: size - 4, height: 44, rx: 5 }), text(24 + at * size + (size - 4) / 2, 42, String(bit), { "text-anchor": "middle" }))),
    text(24, 92, `${value} + 1 = ${exactly(trace.output[trace.output.length - 1])}`, { class: "value strong" }),
    text(24, 126, trace.answer === null ? "no label has this number: unknown" : `label ${value}: ${trace.answer}`, { class: "result" }));
}

// KS25: the line with one bump per group, and the position of this question.
function line(trace, stage) {
  const { x, intervals, hit } = stage.details;
  const ends = intervals.flat().map(Number).concat(Number(x)), low = Math.min(...ends), high = Math.max(...ends), left = 30, right = WIDTH - 30;
  const place = (value) => left + (right - left) * (Number(value) - low) / Math.max(1, high - low);
  return picture(190, `x = ${exactly(x)} among ${intervals.length} groups.`,
    s("line", { class: "axis", x1: left, x2: right, y1: 130, y2: 130 }),
    intervals.map(([from, to], at) => { const a = place(from), b = Math.max(place(to), a + 2);
      return s("path", { class: at === hit ? "bump fired" : "bump", d: `M${a - 2},130 L${a},${at === hit ? 62 : 96} L${b},${at === hit ? 62 : 96} L${b + 2},130 Z` }, s("title", {}, `group ${at + 1}: ${exactly(from)} to ${exactly(to)}`)); }),
    s("circle", { class: "mark", cx: place(x), cy: 130, r: 5 }),
    text(Math.min(right - 90, Math.max(left + 60, place(x))), 154, `x = ${exactly(x)}`, { "text-anchor": "middle", class: "value strong" }),
    text(left, 26, hit === null ? `none of ${intervals.length} groups` : `group ${hit + 1} of ${intervals.length} is active`, { class: "name strong" }),
    text(left, 178, exactly(low), { class: "tick" }), text(right, 178, exactly(high), { class: "tick", "text-anchor": "end" }));
}

// KS25: triangle waves fold the words; each fold moves the next bit to the front.
function waves(trace, stage) {
  const { waves: found, key, value, x, hit } = stage.details, left = 120, right = WIDTH - 20, high = 84;
  const drawn = Object.entries(found).map(([name, values], row) => {
    const top = 30 + row * (high + 34), place = (at) => left + (right - left) * at / Math.max(1, values.length - 1), rise = (each) => top + high * (1 - Math.min(1, Number(each)));
    return s("g", {}, text(left - 12, top + high / 2 + 4, name.startsWith("keys") ? "key word" : "label word", { "text-anchor": "end", class: "name" }),
      [0, 0.5, 1].map((each) => s("line", { class: each === 0.5 ? "half" : "grid", x1: left, x2: right, y1: rise(each), y2: rise(each) })),
      s("path", { class: row ? "course second" : "course", d: values.map((each, at) => `${at ? "L" : "M"}${place(at)},${rise(each)}`).join("") }),
      values.map((each, at) => s("circle", { class: row ? "point second" : "point", cx: place(at), cy: rise(each), r: 3 }, s("title", {}, `after ${at} folds: ${exactly(each)}`))));
  });
  const words = Number(hit) === 1 ? `key ${exactly(key)} matches x = ${exactly(x)}: the answer is ${exactly(value)}` : `key ${exactly(key)} is not x = ${exactly(x)}: nothing is added`;
  return picture(2 * (high + 34) + 58, words, drawn, text(left, 2 * (high + 34) + 44, words, { class: Number(hit) === 1 ? "result" : "value" }));
}

// Any other stage: the values of every channel that changes, layer by layer.
function courses(trace, stage) {
  const layers = trace.layers.slice(Math.max(0, stage.first), stage.last + 2);
  const series = trace.channels.map((channel, at) => ({ ...channel, values: layers.map((layer) => last(layer.stream)[at]) }))
    .filter(({ values }) => new Set(values.map(String)).size > 1).slice(0, 6);
  if (series.length === 0) return picture(70, "Nothing changes for the last token.", text(24, 40, "Nothing changes for the last token here.", { class: "hint" }));
  const left = 120, right = WIDTH - 130, high = 62;
  return picture(20 + series.length * (high + 18), `${stage.title}: ${series.map(({ name }) => name).join(", ")} change.`,
    series.map(({ name, meaning, values }, row) => {
      const top = 14 + row * (high + 18), low = Math.min(0, ...values.map(Number));
      const scale = (each) => Math.sign(each) * Math.log10(1 + Math.abs(each)), floor = scale(low), ceiling = scale(Math.max(0, ...values.map(Number))) || (floor ? 0 : 1);
      const place = (at) => left + (right - left) * at / Math.max(1, values.length - 1), rise = (each) => top + high * (1 - (scale(Number(each)) - floor) / Math.max(1e-9, ceiling - floor));
      return s("g", {}, text(left - 14, top + high / 2 + 4, name, { "text-anchor": "end", class: "name" }), s("title", {}, meaning),
        s("line", { class: "grid", x1: left, x2: right, y1: rise(0), y2: rise(0) }),
        s("path", { class: "course", d: values.map((each, at) => `${at ? "L" : "M"}${place(at)},${rise(each)}`).join("") }),
        values.map((each, at) => s("circle", { class: "point", cx: place(at), cy: rise(each), r: 2.6 }, s("title", {}, `${name} = ${exactly(each)}`))),
        text(right + 12, rise(last(values)) + 4, short2(last(values)), { class: "value" }));
    }));
}

const short2 = (value) => (Math.abs(Number(value)) >= 1e7 ? Number(value).toExponential(2) : Number.isInteger(Number(value)) ? exactly(value) : String(+Number(value).toPrecision(5)));
