// Pasted rows: how their cells are separated, whether the first row is a header, and the table that is made of them.

import { plural } from "./format.js";

const NAMES = { "\t": "tabs", ",": "commas", ";": "semicolons" };
const lines = (text) => text.split("\n").filter(Boolean);

// The separator is a tab if the first row has one. Otherwise it is a semicolon if every row has exactly one and not every row has
// exactly one comma; in all other cases it is a comma. Commas and semicolons inside quotation marks do not count.
export function readPaste(pasted) {
  const text = pasted.replace(/^\s*\n/, "").replace(/\n\s*$/, "");
  const whole = lines(text), bare = lines(text.replace(/"(?:[^"]|"")*"/g, "_"));
  const everyRowHasOne = (separator) => bare.every((row) => row.split(separator).length === 2);
  const separator = whole[0]?.includes("\t") ? "\t" : everyRowHasOne(";") && !everyRowHasOne(",") ? ";" : ",";
  const sizes = (separator === "\t" ? whole : bare).map((row) => row.split(separator).length);
  const first = (whole[0] ?? "").split(separator).map((cell) => cell.replace(/^"(.*)"$/, "$1"));
  return {
    text,
    separator,
    nRows: text.trim() ? sizes.length : 0,
    nCells: sizes.every((size) => size === sizes[0]) ? sizes[0] : null, // null if the rows differ
    namesColumns: first.includes("key") && first.includes("value"),
  };
}

export function describePaste({ separator, nRows, nCells }, isHeader) {
  if (nRows === 0) return "";
  if (nCells === 1) return "There is one cell in each row. Separate the question from the answer by a comma, a tab or a semicolon.";
  const cells = nCells === null ? "with different numbers of cells" : `of ${nCells} cells`;
  const rows = isHeader ? `a header and ${plural(nRows - 1, "row")}` : plural(nRows, "row");
  return `Read as ${rows} ${cells}, separated by ${NAMES[separator]}. The first row is ${isHeader ? "not a fact" : "a fact"}.`;
}

// The text of a table with a header. Columns without names are named `key` and `value`, or numbered if there are more than two.
export function withHeader({ text, separator, nCells }, isHeader) {
  if (isHeader) return `${text}\n`;
  const names = nCells > 2 ? Array.from({ length: nCells }, (_, at) => `column ${at + 1}`) : ["key", "value"];
  return `${names.join(separator)}\n${text}\n`;
}
