// Features of all pictures: saving as SVG, a tip that follows the pointer, pinned numbers.

import { h, fill, say } from "./dom.js";

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "paint-order", "letter-spacing"];

// A copy that needs no style sheet: every element has its computed style.
function standalone(picture) {
  const copy = picture.cloneNode(true);
  const originals = [picture, ...picture.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((element, at) => {
    const style = getComputedStyle(element);
    copies[at].setAttribute("style", KEPT.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  const box = picture.getBoundingClientRect();
  if (!copy.getAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  copy.setAttribute("width", Math.round(box.width));
  copy.setAttribute("height", Math.round(box.height));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.style.background = getComputedStyle(document.documentElement).getPropertyValue("--surface");
  return copy;
}

export function saveText(name, text, type) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function saveButton(find, name) {
  return h("button", { type: "button", class: "quiet save", onclick: () => {
    const picture = find();
    if (picture) saveText(`${name}.svg`, new XMLSerializer().serializeToString(standalone(picture)), "image/svg+xml");
  } }, "Save as SVG");
}

// The frame of a picture. On a narrow screen it scrolls, so it must be reachable with the keyboard.
export const frame = (title, ...children) => h("div", { class: "picture", tabindex: "0", role: "group", "aria-label": title }, children);

// A figure with its caption and its button.
export function figure(name, title, picture) {
  const holder = frame(title, picture);
  return h("figure", {}, holder,
    h("figcaption", { class: "row spread" }, h("span", {}, title), saveButton(() => holder.querySelector("svg"), name)));
}

export function makeTip(host) {
  const tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  host.append(tip);
  return {
    show(event, ...lines) {
      fill(tip, lines.map((line) => h("div", {}, line)));
      tip.hidden = false;
      const box = host.getBoundingClientRect();
      const left = Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4);
      tip.style.left = `${Math.max(0, left)}px`;
      tip.style.top = `${event.clientY - box.top + 18}px`;
    },
    hide() { tip.hidden = true; },
  };
}

// A list of numbers that were clicked.
export function pinBoard() {
  const list = h("ul", { class: "pins" });
  const empty = h("p", { class: "hint" }, "Click a cell to pin its number here.");
  const board = h("div", { class: "board" }, empty, list);
  return {
    board,
    pin(key, text) {
      const known = [...list.children].find((item) => item.dataset.key === key);
      if (known) known.remove();
      else {
        list.append(h("li", { "data-key": key }, h("span", {}, text),
          h("button", { type: "button", class: "quiet", "aria-label": `Unpin ${text}`, onclick: (event) => { event.target.closest("li").remove(); empty.hidden = list.children.length > 0; } }, "×")));
        say(`pinned: ${text}`);
      }
      empty.hidden = list.children.length > 0;
    },
  };
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Blue for positive, orange for negative, by the order of magnitude, because numbers of a stream range from 1 to 2^50.
export function heat(value, largest) {
  const number = Number(value);
  if (!number) return "var(--heat-zero)";
  const share = Math.min(1, Math.log10(1 + Math.abs(number)) / Math.log10(1 + largest));
  const strength = Math.round(18 + 82 * share);
  return `color-mix(in oklab, var(${number > 0 ? "--heat-plus" : "--heat-minus"}) ${strength}%, var(--heat-zero))`;
}
