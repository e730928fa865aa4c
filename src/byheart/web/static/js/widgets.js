// Controls shared by several views.

import { h, fill, field, problem } from "./dom.js";
import { cancelJob, get, runJob } from "./api.js";
import { count, plural, seconds } from "./format.js";
import { href, params, setParams } from "./state.js";

// A menu of the models, or a link to make one if there are none.
export async function modelChoice(room, onChange) {
  const { models } = await get("/api/models");
  if (models.length === 0) {
    room.append(h("div", { class: "card empty" },
      h("h2", {}, "There is no model yet"),
      h("p", {}, "Compile a table first. It takes a few seconds."),
      h("a", { class: "button", href: "/compile" }, "Compile a table")));
    return null;
  }
  const wanted = params().get("model");
  const names = models.map((model) => model.name);
  if (wanted && !names.includes(wanted)) room.append(problem({ kind: "UnknownName", message: `there is no model named ${wanted}.` }));
  const current = names.includes(wanted) ? wanted : names[0];
  const select = h("select", { onchange: () => { setParams({ model: select.value }); onChange(select.value); } },
    models.map((model) => h("option", { value: model.name, selected: model.name === current }, describe(model))));
  setParams({ model: current });
  return { control: field("Model", select), name: () => select.value, find: (name) => models.find((model) => model.name === name) };
}

function describe(model) {
  const facts = model.dataset ? ` · ${plural(model.dataset.n_samples, "fact")}` : "";
  return `${model.name}${model.method ? ` · ${model.method}` : ""}${facts}`;
}

// The progress of a job, with a button to cancel it.
export function progressBar(title) {
  const bar = h("progress", { max: 1, "aria-label": title });
  const words = h("span", { class: "hint" }, "waiting for a worker");
  const button = h("button", { type: "button", class: "quiet" }, "Cancel");
  let job = null;
  const cancel = () => cancelJob(job.id).catch(() => {});
  button.addEventListener("click", () => { button.disabled = true; if (job) cancel(); }); // if the job is not known yet, it is cancelled as soon as it is
  const element = h("div", { class: "progress" }, h("div", { class: "row spread" }, h("strong", {}, title), button), bar, words);
  return {
    element,
    watch(news) {
      const isFirst = job === null;
      job = news;
      if (isFirst && button.disabled) cancel();
      const { stage, done, total } = news.progress;
      if (news.state === "waiting") { words.textContent = "waiting for a worker"; return; }
      if (total) bar.value = done / total;
      const elapsed = news.started ? ` · ${seconds(Math.max(0, Date.now() / 1000 - news.started))}` : "";
      words.textContent = total ? `${stage}: ${Math.floor(100 * done / total)}%${elapsed}` : `working${elapsed}`;
    },
  };
}

export const numbers = (pairs) => h("dl", { class: "numbers" }, pairs.map(([name, value, note]) =>
  h("div", {}, h("dt", {}, name), h("dd", {}, value, note && h("small", {}, note)))));

export function jobEnded(job) {
  if (job.state === "cancelled") return h("p", { class: "note" }, "Cancelled. Nothing was written.");
  return problem({ kind: job.error.error, message: job.error.message });
}

export const actions = (model) => h("div", { class: "row" },
  h("a", { class: "button", href: href("ask", { model }) }, "Ask it"),
  h("a", { class: "button second", href: href("inside", { model }) }, "Look inside"),
  h("a", { class: "button second", href: href("break", { model }) }, "Break it"),
  h("a", { class: "button second", href: `/api/models/${encodeURIComponent(model)}/download`, download: `${model}.zip` }, "Download"),
  ["onnx", "gguf"].map((format) => exporting(model, format)));

// Writes the model in another format and downloads the file, or shows why it cannot be written.
function exporting(model, format) {
  const words = h("span", { class: "export", role: "status" });
  const button = h("button", { type: "button", class: "quiet", onclick: async () => {
    button.disabled = true;
    fill(words, h("span", { class: "hint" }, "writing …"));
    try {
      const job = await runJob({ kind: "export", model, format });
      if (job.state !== "done") { fill(words, jobEnded(job)); return; }
      const link = h("a", { href: `/api/exports/${encodeURIComponent(job.result.name)}`, download: job.result.name }, job.result.name);
      fill(words, link);
      link.click();
    } catch (error) { fill(words, problem(error)); } finally { button.disabled = false; }
  } }, format.toUpperCase());
  return [button, words];
}

export { count, fill };
