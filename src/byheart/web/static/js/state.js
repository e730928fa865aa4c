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
