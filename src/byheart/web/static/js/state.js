// The state of the page is its address, so a link shows another person the same thing.

export const params = () => new URLSearchParams(location.search);

export function setParams(changes, { push = false } = {}) {
  const next = params();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  const address = location.pathname + (text ? `?${text}` : "");
  if (address === location.pathname + location.search) return;
  history[push ? "pushState" : "replaceState"](null, "", address);
}

export function href(view, values = {}) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const text = query.toString();
  return `/${view}${text ? `?${text}` : ""}`;
}

export const goTo = (view, values) => {
  history.pushState(null, "", href(view, values));
  dispatchEvent(new PopStateEvent("popstate"));
};

// The options for reading a table, which are part of the address.
const READING = ["input", "label", "delimiter", "empty_labels", "empty_inputs", "malformed_rows", "non_finite", "max_tokens", "on_conflict"];

// Those of `values` that are options for reading a table.
export const readingOptions = (values) => Object.fromEntries(READING.filter((name) => name in values)
  .map((name) => [name, name === "max_tokens" ? Number(values[name]) : values[name]]));

export const noReadingOptions = Object.fromEntries(READING.map((name) => [name, null]));
