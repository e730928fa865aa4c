// Figures and runs: the reproductions with their verdicts, and the runs of a store, also while it is being written.

import { h, s, fill, field, card, problem, worded, say, table } from "../dom.js";
import { get, serverState } from "../api.js";
import { count, plural, ratio, short } from "../format.js";
import { params, setParams } from "../state.js";
import { colour, figure } from "../pictures.js";
import { living, loadPlot, look, palette } from "../charts.js";

const LIVE_MS = 2000;
const MOST_CURVES = 12;
const SOLID = "", DASHED = "5,4", DOTTED = "2,3", DASH_DOT = "8,3,1.5,3", NOT_JOINED = null;
const curve = (number) => ({ number, dashes: SOLID, symbol: "circle" });
// The colour (a number of --series) of each style, the dashes of its line, and the symbol of its points, if they have one.
// Styles of one panel differ in one of them, bounds in colour and dashes. `reproduce/plots.py` says which styles are joined.
const STYLES = new Map(Object.entries({
  measured: curve(1), second: curve(2), third: curve(3), fourth: curve(4), fifth: curve(5), sixth: curve(6), seventh: curve(6), "closed-form": curve(7),
  published: { number: 8, dashes: NOT_JOINED, symbol: "times" },
  fit: { number: 1, dashes: DASHED }, fit2: { number: 7, dashes: DOTTED }, bound: { number: 4, dashes: DASH_DOT }, bound2: { number: 6, dashes: DOTTED },
}));
// What the `line` of a series changes; `usual` changes nothing.
const LINES = new Map(Object.entries({
  solid: { dashes: SOLID, symbol: "circle" }, dashed: { dashes: DASHED, symbol: "square" }, points: { dashes: NOT_JOINED, symbol: "times" },
}));

export default async function figures(room, { signal }) {
  room.append(h("header", { class: "hero small" }, h("h1", {}, "Figures and runs"),
    h("p", { class: "lead" }, "The figures of the papers, reproduced from new runs, each with a verdict. The runs are listed below.")));
  const state = await serverState();
  const shown = h("div");
  const { figures: found } = await get("/api/figures", { signal });
  if (found.length > 0) room.append(gallery(found, show), shown);
  room.append(state.has_store ? runs(signal) : card("Runs", h("p", { class: "hint" }, worded("Start the page with `--store runs.sqlite` to watch the runs that `byheart measure` writes to this store."))));

  async function show(name) {
    setParams({ figure: name });
    for (const button of room.querySelectorAll("[data-figure]")) button.setAttribute("aria-pressed", String(button.dataset.figure === name));
    try {
      const record = await get(`/api/figures/${encodeURIComponent(name)}`, { signal });
      const Plot = await loadPlot();
      if (signal.aborted) return;
      fill(shown, drawing(record, Plot, signal));
      say(`${record.title}: ${record.verdict.outcome}`);
    } catch (error) {
      if (error.name !== "AbortError") fill(shown, h("div", { class: "card" }, problem(error)));
    }
  }
  const wanted = params().get("figure") ?? found[0]?.name;
  if (wanted && found.length > 0) show(wanted);
}

const verdictClass = (outcome) => ({ holds: "good", "holds in part": "partly", "does not hold": "bad" }[outcome] ?? "open");

function gallery(found, show) {
  return h("section", { class: "gallery", "aria-label": "Reproductions" }, found.map((each) =>
    h("button", { type: "button", class: "tile", "data-figure": each.name, "aria-pressed": "false", onclick: () => show(each.name) },
      h("span", { class: `verdict-mark ${verdictClass(each.outcome)}` }, each.outcome), h("span", {}, each.title))));
}

function drawing(record, Plot, signal) {
  const panels = record.panels.map((panel, at) => {
    const holder = h("div", { class: "chart" });
    queueMicrotask(() => living(holder, (width) => (panel.cells?.length ? cells(Plot, panel, width) : lines(Plot, panel, width)), signal));
    return h("div", { class: "panel" }, figure(`${record.figure}-${at + 1}`, panel.title, holder), legend(panel));
  });
  const { verdict } = record;
  return card(record.title,
    h("p", { class: "lead" }, worded(record.claim)),
    h("p", {}, h("span", { class: `verdict-mark ${verdictClass(verdict.outcome)}` }, verdict.outcome), " ", worded(verdict.because)),
    h("div", { class: panels.length > 1 ? "panels many" : "panels" }, panels),
    verdict.checks?.length > 0 && h("details", {}, h("summary", {}, plural(verdict.checks.length, "comparison")),
      table(["quantity", "found", "expected", ""], verdict.checks.map((check) => [check.name, check.found, check.wanted, check.holds ? "holds" : "does not hold"]), { caption: "Comparisons behind the verdict" })));
}

const looks = (series) => ({ ...STYLES.get(series.style) ?? curve(1), ...LINES.get(series.line) });
const lineWidth = ({ symbol }) => (symbol ? 2 : 1.5);

function legend(panel) {
  if (!panel.series?.length || panel.series.length < 2) return null;
  return h("ul", { class: "legend" }, panel.series.map((series) => h("li", {}, sample(looks(series)), series.label)));
}

function sample(look) {
  const colour = `var(--series-${look.number})`;
  const line = look.dashes !== NOT_JOINED && s("line", { class: "curve", x2: 24, y1: 5, y2: 5, style: `stroke:${colour}`, "stroke-width": lineWidth(look), "stroke-dasharray": look.dashes || null });
  const shapes = {
    circle: () => s("circle", { class: "circle", cx: 12, cy: 5, r: 3, style: `fill:${colour}` }),
    square: () => s("rect", { class: "square", x: 9, y: 2, width: 6, height: 6, style: `fill:${colour}` }),
    times: () => s("path", { class: "times", d: "M9,2L15,8M9,8L15,2", style: `stroke:${colour}`, "stroke-width": 1.5 }),
  };
  return s("svg", { width: 24, height: 10, "aria-hidden": "true" }, line, look.symbol && shapes[look.symbol]());
}

function lines(Plot, panel, width) {
  const colours = palette();
  const isShown = (value, scale) => Number.isFinite(value) && (scale !== "log" || value > 0);
  const curves = panel.series.map((series) => ({
    ...looks(series), points: series.x.map((x, at) => ({ label: series.label, x, y: series.y[at], low: series.low?.[at], high: series.high?.[at] }))
      .filter((point) => isShown(point.x, panel.x_scale) && isShown(point.y, panel.y_scale)),
  }));
  const marked = curves.filter((each) => each.symbol), joined = curves.filter((each) => each.dashes !== NOT_JOINED);
  const colourOf = (each) => colours[each.number - 1];
  return Plot.plot({
    width, height: Math.max(240, Math.min(440, width * 0.55)), marginLeft: 58, marginBottom: 40, style: look(), ariaLabel: panel.title,
    x: { type: panel.x_scale === "log" ? "log" : "linear", label: panel.x_label, grid: true, tickFormat: short, ticks: width < 420 ? 4 : 7 }, y: { type: panel.y_scale === "log" ? "log" : "linear", label: panel.y_label, grid: true, ticks: 6, tickFormat: (value) => (Math.abs(value) >= 1e4 ? short(value) : ratio(value)) },
    marks: [
      marked.map((each) => Plot.areaY(each.points.filter(({ low, high }) => isShown(low, panel.y_scale) && Number.isFinite(high)), { x: "x", y1: "low", y2: "high", fill: colourOf(each), fillOpacity: 0.13 })),
      joined.map((each) => Plot.line(each.points, { x: "x", y: "y", className: "curve", stroke: colourOf(each), strokeWidth: lineWidth(each), strokeDasharray: each.dashes || null })),
      marked.map((each) => Plot.dot(each.points, { x: "x", y: "y", className: each.symbol, symbol: each.symbol, r: 3, [each.symbol === "times" ? "stroke" : "fill"]: colourOf(each) })),
      Plot.tip(curves.flatMap((each) => each.points), Plot.pointer({ x: "x", y: "y", title: (d) => `${d.label}\n${panel.x_label}: ${ratio(d.x)}\n${panel.y_label}: ${ratio(d.y)}`, fill: colour("surface"), stroke: colour("line") })),
    ],
  });
}

function cells(Plot, panel, width) {
  const found = panel.cells.flatMap((line, row) => line.map((value, column) => ({ x: panel.columns[column], y: panel.rows[row], value }))).filter((each) => Number.isFinite(each.value));
  return Plot.plot({
    width, height: Math.max(240, Math.min(440, width * 0.6)), marginLeft: 58, style: look(), ariaLabel: panel.title,
    x: { type: "band", label: panel.x_label }, y: { type: "band", label: panel.y_label, reverse: true }, color: { scheme: "blues", legend: false },
    marks: [Plot.cell(found, { x: "x", y: "y", fill: "value", inset: 0.5, title: (d) => `${panel.x_label} ${d.x}, ${panel.y_label} ${d.y}: ${ratio(d.value)}` })],
  });
}

// --- runs -------------------------------------------------------------------------------------------------------

function runs(signal) {
  const filter = h("input", { type: "text", autocomplete: "off", spellcheck: false, placeholder: "sizes.n_heads>=2, status=done", value: params().get("where") ?? "", oninput: () => { setParams({ where: filter.value }); clearTimeout(typing); typing = setTimeout(refresh, 200); } });
  const metric = h("select", { onchange: () => { setParams({ metric: metric.value }); again?.(); } });
  const status = h("p", { class: "hint", role: "status" }), list = h("div"), holder = h("div", { class: "chart" });
  let typing, timer, last = "", curves = [], again, chosen = new Set((params().get("runs") ?? "").split(",").filter(Boolean));

  async function refresh() {
    clearTimeout(timer);
    const conditions = filter.value.split(",").map((each) => each.trim()).filter(Boolean);
    try {
      const found = await get(`/api/runs?${new URLSearchParams(conditions.map((each) => ["where", each]))}`, { signal });
      status.textContent = `${count(found.n_kept)} of ${plural(found.n_runs, "run")}`;
      const now = JSON.stringify([found.n_runs, conditions]);
      if (now !== last) { last = now; fill(list, rows(found.runs)); }
    } catch (error) {
      if (error.name === "AbortError") return;
      last = "";
      status.textContent = "";
      fill(list, problem(error));
    }
    if (!signal.aborted && !document.hidden) timer = setTimeout(refresh, LIVE_MS);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !signal.aborted) refresh(); }, { signal });

  function rows(found) {
    const columns = [...new Set(found.flatMap((row) => Object.keys(row)))];
    const varying = columns.filter((name) => /^(sizes|options|data|training)\./.test(name) && new Set(found.map((row) => String(row[name]))).size > 1).slice(0, 5);
    const label = (name) => { const last = name.split(".").at(-1); return shown.filter((each) => each.split(".").at(-1) === last).length > 1 ? name : last; };
    const shown = [...varying.filter((name) => found.some((row) => row[name] !== row.seed)), "seed", "status", "n_parameters", "measured.loss", "measured.accuracy"].filter((name) => columns.includes(name));
    const cell = (row, name) => (typeof row[name] === "number" ? (name === "n_parameters" ? count(row[name]) : ratio(row[name])) : row[name]);
    if (![...chosen].some((key) => found.some((row) => row.key === key))) chosen = new Set(found.slice(0, 6).map((row) => row.key));
    draw();
    return table(["curve", ...shown.map(label)], found.slice(0, 200).map((row) => [
      h("input", { type: "checkbox", checked: chosen.has(row.key), "aria-label": `Draw the run ${row.key.slice(0, 8)}`, onchange: (event) => { event.target.checked ? chosen.add(row.key) : chosen.delete(row.key); setParams({ runs: [...chosen].slice(0, MOST_CURVES).join(",") }); draw(); } }),
      ...shown.map((name) => cell(row, name))]), { numbers: shown.map((_, at) => at + 1), caption: "Runs", empty: "No run meets these conditions." });
  }

  async function draw() {
    const keys = [...chosen].slice(0, MOST_CURVES);
    if (keys.length === 0) { curves = []; again?.(); return; }
    try {
      ({ curves } = await get(`/api/runs/curves?${new URLSearchParams(keys.map((key) => ["key", key]))}`, { signal }));
      const names = [...new Set(curves.flatMap((curve) => Object.keys(curve.values)))];
      if ([...metric.options].map((each) => each.value).join() !== names.join()) fill(metric, names.map((name) => h("option", { value: name, selected: name === (params().get("metric") ?? "accuracy") }, name)));
      const Plot = await loadPlot();
      again ??= living(holder, (width) => curves.length > 0 && courses(Plot, curves, metric.value, width), signal);
      again();
    } catch (error) { if (error.name !== "AbortError") fill(holder, problem(error)); }
  }
  refresh();
  return card("Runs", h("div", { class: "asking" }, field("Filter", filter, "Conditions separated by commas: column=value, or with !=, <, <=, >, >="), field("Curve", metric)), status,
    figure("runs", "Training curves of the chosen runs", holder), list);
}

function courses(Plot, curves, metric, width) {
  const points = curves.flatMap((curve, at) => (curve.values[metric] ?? []).map((value, step) => ({ key: curve.key.slice(0, 8), step: curve.steps[step], value, colour: palette()[at % 8] }))).filter((point) => point.value !== null);
  const positive = points.every((point) => point.value > 0), spread = positive && Math.max(...points.map((p) => p.value)) / Math.min(...points.map((p) => p.value)) > 100;
  return Plot.plot({
    width, height: Math.max(240, Math.min(380, width * 0.42)), marginLeft: 58, marginBottom: 40, style: look(), ariaLabel: `${metric} by step`, color: { type: "identity" },
    x: { label: "step", grid: true }, y: { type: spread ? "log" : "linear", label: metric, grid: true, ticks: 6 },
    marks: [Plot.line(points, { x: "step", y: "value", z: "key", stroke: "colour", strokeWidth: 1.8 }), Plot.tip(points, Plot.pointer({ x: "step", y: "value", title: (d) => `${d.key}\nstep ${count(d.step)}\n${metric} ${ratio(d.value)}`, fill: colour("surface"), stroke: colour("line") }))],
  });
}
