// The residual stream of one token as a heat map: one column per layer, one row per channel.

import { h, s, say } from "./dom.js";
import { exactly } from "./format.js";
import { heat, makeTip } from "./pictures.js";

const TOP = 26, WIDTH = 1040, RIGHT = 14;

export function heatmap(trace, token, board, { onLayer }) {
  const columns = trace.layers.map((layer) => (layer.stream.length === trace.tokens.length ? layer.stream[token] : layer.stream[layer.stream.length - 1]));
  const n = columns.length, m = trace.channels.length, LEFT = 22 + 7 * Math.max(5, ...trace.channels.map((channel) => channel.name.length)), cell = (WIDTH - LEFT - RIGHT) / n, high = Math.max(10, Math.min(26, 520 / m));
  const largest = trace.channels.map((_, channel) => Math.max(1, ...columns.map((column) => Math.abs(Number(column[channel])) || 0)));
  const host = h("div", { class: "heat", tabindex: "0", role: "group", "aria-label": "Residual stream. Arrow keys move, Enter pins a number." });
  const cursor = s("rect", { class: "cursor", width: Math.max(3, cell), height: high, visibility: "hidden" });
  const band = s("rect", { class: "band", y: TOP - 6, height: m * high + 12 });
  const cells = columns.flatMap((column, layer) => column.map((value, channel) =>
    s("rect", { x: LEFT + layer * cell, y: TOP + channel * high, width: cell + 0.3, height: high - 1, style: `fill:${heat(value, largest[channel])}`, "data-at": `${layer},${channel}` })));
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${TOP + m * high + 30}`, role: "img", class: "drawn", "aria-label": `Residual stream: ${n - 1} layers, ${m} channels.` },
    cells,
    trace.channels.map((channel, at) => s("text", { class: "name", x: LEFT - 8, y: TOP + at * high + high / 2 + 4, "text-anchor": "end" }, channel.name, s("title", {}, channel.meaning))),
    trace.stages.map((stage) => s("line", { class: "border", x1: LEFT + (stage.first + 1) * cell, x2: LEFT + (stage.first + 1) * cell, y1: TOP - 6, y2: TOP + m * high + 6 })),
    band, cursor,
    [0, ...Array.from({ length: 8 }, (_, at) => Math.round((at + 1) * (n - 1) / 8))].map((layer) => s("text", { class: "tick", x: LEFT + (layer + 0.5) * cell, y: TOP + m * high + 20, "text-anchor": "middle" }, layer === 0 ? "in" : String(layer - 1))),
    s("text", { class: "tick", x: LEFT - 8, y: TOP + m * high + 20, "text-anchor": "end" }, "layer"));
  host.append(picture);
  const tip = makeTip(host);

  const words = (layer, channel) => `${trace.channels[channel].name} ${layer === 0 ? "on entering" : `after layer ${layer - 1}`} = ${exactly(columns[layer][channel])}`;
  const place = (element) => element?.dataset?.at?.split(",").map(Number);
  picture.addEventListener("pointermove", (event) => {
    const at = place(event.target);
    if (!at) { tip.hide(); return; }
    tip.show(event, words(...at), trace.channels[at[1]].meaning);
  });
  picture.addEventListener("pointerleave", () => tip.hide());
  picture.addEventListener("click", (event) => {
    const at = place(event.target);
    if (!at) return;
    move(...at);
    board.pin(`${token}:${at}`, words(...at));
    onLayer(at[0] - 1);
  });
  let here = null;
  function move(layer, channel) {
    here = [Math.max(0, Math.min(n - 1, layer)), Math.max(0, Math.min(m - 1, channel))];
    cursor.setAttribute("x", LEFT + here[0] * cell);
    cursor.setAttribute("y", TOP + here[1] * high);
    cursor.setAttribute("visibility", "visible");
  }
  host.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (steps) { event.preventDefault(); here ? move(here[0] + steps[0], here[1] + steps[1]) : move(0, 0); say(words(...here)); }
    if (event.key === "Enter" && here) { board.pin(`${token}:${here}`, words(...here)); onLayer(here[0] - 1); }
  });
  return {
    host,
    mark(stage) {
      band.setAttribute("x", LEFT + (stage.first + 1) * cell);
      band.setAttribute("width", (stage.last - stage.first + 1) * cell);
    },
  };
}
