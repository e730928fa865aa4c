// The frame: which view is shown, colours, and the list of jobs.

import { h, fill, problem } from "./dom.js";
import { cancelJob, get, isOver, onJobs, serverState } from "./api.js";
import { goTo, href, params, readingOptions } from "./state.js";

const VIEWS = {
  compile: "Compile",
  ask: "Ask",
  inside: "Look inside",
  break: "Break it",
  fits: "How much fits",
  figures: "Figures and runs",
};

const main = document.getElementById("main");
const nav = document.getElementById("nav");
let leaving = new AbortController();
let shown = null;

function viewName() {
  const name = location.pathname.split("/")[1] || "compile";
  return name in VIEWS || name === "api" ? name : "compile";
}

async function show() {
  const name = viewName();
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  drawNav(name);
  const title = VIEWS[name] ?? "API";
  document.title = `${title} · byheart`;
  try {
    const view = await import(`./views/${name}.js`);
    if (signal.aborted) return; // another view was opened in the meantime
    const room = h("div", { class: `view view-${name}` });
    fill(main, room);
    if (shown !== null && shown !== name) { main.focus({ preventScroll: true }); scrollTo(0, 0); }
    shown = name;
    await view.default(room, { signal });
  } catch (error) {
    if (error.name !== "AbortError" && !signal.aborted) main.append(problem(error));
  }
}

function drawNav(current) {
  const model = params().get("model");
  const keeps = ["ask", "inside", "break"];
  fill(nav, Object.entries(VIEWS).map(([name, title]) =>
    h("a", { href: href(name, keeps.includes(name) ? { model } : {}), "aria-current": name === current ? "page" : null }, title)));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const address = new URL(link.href);
  const name = address.pathname.split("/")[1];
  if (address.origin !== location.origin || link.hasAttribute("download") || !(name in VIEWS || name === "api")) return;
  event.preventDefault();
  history.pushState(null, "", address.pathname + address.search);
  show();
});
addEventListener("popstate", show);

// --- colours ------------------------------------------------------------------------------------------------

const themeButton = document.getElementById("theme-button");
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  themeButton.textContent = theme === "dark" ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", `Use ${theme === "dark" ? "light" : "dark"} colours`);
  dispatchEvent(new CustomEvent("themechange"));
}
themeButton.addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("byheart-theme", theme); } catch { /* storage may be off */ }
  setTheme(theme);
});
setTheme(document.documentElement.dataset.theme);

// --- jobs ---------------------------------------------------------------------------------------------------

const dialog = document.getElementById("jobs");
const badge = document.getElementById("jobs-count");
let timer;

async function refreshJobs() {
  clearTimeout(timer);
  let jobs;
  try { ({ jobs } = await get("/api/jobs")); } catch { return; }
  const busy = jobs.filter((job) => !isOver(job));
  badge.hidden = busy.length === 0;
  badge.textContent = String(busy.length);
  if (dialog.open) drawJobs(jobs);
  if (busy.length || dialog.open) timer = setTimeout(refreshJobs, 700);
}

function jobLink(job) {
  const { kind, data, model } = job.request;
  if (kind === "compile" || kind === "examine") return href("compile", { data, ...readingOptions(job.request), job: kind === "compile" ? job.id : null });
  return href(kind === "predict" ? "ask" : "break", { model });
}

function drawJobs(jobs) {
  const focused = document.activeElement?.dataset?.job;
  fill(dialog,
    h("div", { class: "row spread" }, h("h2", { id: "jobs-title" }, "Jobs"),
      h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close")),
    jobs.length === 0 && h("p", { class: "hint" }, "There are no jobs yet."),
    h("ul", { class: "jobs" }, jobs.slice(0, 40).map((job) => h("li", {},
      h("span", { class: `dot ${job.state}`, "aria-hidden": "true" }),
      h("a", { href: jobLink(job), onclick: () => dialog.close() }, job.title),
      h("span", { class: "hint" }, job.state === "running" && job.progress.total
        ? `${job.progress.stage} ${Math.round(100 * job.progress.done / job.progress.total)}%` : job.state),
      !isOver(job) && h("button", { type: "button", class: "quiet", "data-job": job.id, onclick: () => cancelJob(job.id).then(refreshJobs) }, "Cancel"),
      job.error && h("p", { class: "hint" }, job.error.message.split("\n")[0])))));
  if (focused) dialog.querySelector(`[data-job="${CSS.escape(focused)}"]`)?.focus();
}

document.getElementById("jobs-button").addEventListener("click", () => {
  drawJobs([]);
  dialog.showModal();
  refreshJobs();
});
onJobs(refreshJobs);

serverState().then((state) => {
  const kept = state.keeps_models ? "" : "Models made here are deleted when the server stops. Download them, or start the server with --models DIR. ";
  fill(document.getElementById("foot"), `byheart ${state.version}. ${kept}Nothing leaves this machine. `, h("a", { href: "/api" }, "API"));
}).catch(() => {});
refreshJobs();
show();
export { goTo };
