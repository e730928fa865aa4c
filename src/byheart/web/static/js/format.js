// Numbers for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export const count = (value) => (value === null || value === undefined ? "–" : Math.abs(value) < 1e15 ? whole.format(value) : value.toExponential(1));

export function short(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1e4) return whole.format(value);
  for (const [size, name] of units) if (value >= size && value < 1000 * size) return `${+(value / size).toPrecision(3)} ${name}`;
  return value.toExponential(1);
}

export const ratio = (value) => (value === null || value === undefined ? "–" : String(+Number(value).toPrecision(3)));

export function bytes(value) {
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${+(value / 1e3).toPrecision(3)} kB` : `${+(value / 1e6).toPrecision(3)} MB`;
}

export function seconds(value) {
  if (value < 1) return `${Math.round(1000 * value)} ms`;
  return value < 120 ? `${+value.toPrecision(2)} s` : `${Math.round(value / 60)} min`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// A number of the residual stream. A number that no float equals is given as text.
export function exactly(value) {
  if (value === null) return "not finite";
  if (typeof value === "string") return `≈ ${value}`;
  if (Number.isInteger(value)) return whole.format(value);
  return String(value);
}
