// Plots, by Observable Plot, which is fetched when the first one is drawn.

import { h } from "./dom.js";
import { colour } from "./pictures.js";

let plot;
const script = (source) => new Promise((resolve, reject) => {
  document.head.append(h("script", { src: source, onload: resolve, onerror: () => reject(new Error(`${source} cannot be loaded`)) }));
});
export const loadPlot = () => (plot ??= script("/vendor/d3.min.js").then(() => script("/vendor/plot.umd.min.js")).then(() => window.Plot));

export const look = () => ({ color: colour("ink"), background: "transparent", fontFamily: "Inter, system-ui, sans-serif", fontSize: "12px", overflow: "visible" });

export const palette = () => ["series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7", "series-8"].map(colour);

// One picture with one name: a screen reader should not read Plot's names of its parts.
function named(drawn) {
  for (const part of drawn.querySelectorAll("g[aria-label], g[aria-description]")) { part.removeAttribute("aria-label"); part.removeAttribute("aria-description"); }
  const picture = drawn.matches("svg") ? drawn : drawn.querySelector("svg");
  picture?.setAttribute("role", "img");
  return drawn;
}

// Draws again when the colours or the width change.
export function living(holder, draw, signal) {
  let width = 0;
  const again = () => {
    if (signal?.aborted) return;
    holder.replaceChildren();
    const drawn = draw(holder.clientWidth || 800);
    if (drawn) holder.append(named(drawn));
  };
  addEventListener("themechange", again, { signal });
  const observer = new ResizeObserver(() => { if (Math.abs(holder.clientWidth - width) > 8) { width = holder.clientWidth; again(); } });
  observer.observe(holder);
  signal?.addEventListener("abort", () => observer.disconnect());
  again();
  return again;
}
