// Elements without markup: text is always inserted as text, so it cannot inject elements.

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name in element && !(element instanceof SVGElement) && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

let nextId = 0;
export const freshId = (stem) => `${stem}-${++nextId}`;

// A label above a control, tied to it.
export function field(label, control, hint) {
  control.id ||= freshId("field");
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, hint && h("p", { class: "hint" }, hint));
}

// Tells a screen reader what changed.
// Shows text between backticks as code.
export const worded = (text) => (text ?? "").split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

export function say(text) {
  const live = document.getElementById("live");
  live.textContent = "";
  requestAnimationFrame(() => { live.textContent = text; });
}

export function card(title, ...children) {
  const id = freshId("card");
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), children);
}

export function problem(error) {
  const lines = String(error.message ?? error).split("\n");
  return h("div", { class: "problem", role: "alert" },
    h("strong", {}, `${error.kind ?? "Error"}: `), worded(lines[0]), lines.slice(1).map((line) => h("div", { class: "advice" }, worded(line))));
}

export function table(headers, rows, { numbers = [], caption, empty = "Nothing here." } = {}) {
  const cell = (value) => (value instanceof Node ? value : String(value ?? ""));
  const region = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      caption && h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, headers.map((name, at) => h("th", { scope: "col", class: numbers.includes(at) ? "number" : "" }, name)))),
      h("tbody", {}, rows.length
        ? rows.map((row) => h("tr", {}, row.map((value, at) => h("td", { class: numbers.includes(at) ? "number" : "" }, cell(value)))))
        : h("tr", {}, h("td", { colspan: String(headers.length), class: "hint" }, empty)))));
  return region;
}
