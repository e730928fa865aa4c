// Requests to the server that this page came from, and to no other server.

export class Refusal extends Error {
  constructor(document, status) {
    super(document.message ?? `the server answered ${status}.`);
    this.kind = document.error ?? "Error";
    this.status = status;
    this.facts = document.facts ?? {};
    this.faults = document.faults; // the kinds of faulty rows of a table, if it has any
    this.columns = document.columns; // the columns of a table in which one is missing
  }
}

async function answer(response) {
  let document;
  try { document = await response.json(); } catch { document = {}; }
  if (!response.ok) throw new Refusal(document, response.status);
  return document;
}

async function send(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal({ error: "NoServer", message: "the server does not answer.\nIs `byheart serve` still running?" }, 0);
  }
}

export const get = async (path, options) => answer(await send(path, options));

export const post = async (path, body, options = {}) =>
  answer(await send(path, { ...options, method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));

// The server accepts letters and digits of any language in a name, but few other characters.
const uploadName = (name) => name.normalize("NFC").replace(/[^\p{L}\p{N}_ .()+-]/gu, "_");

export async function upload(name, content, most) {
  const size = content.size ?? new Blob([content]).size;
  if (most && size > most) {
    throw new Refusal({ error: "TooLarge", message: `the file has ${Math.ceil(size / 1e6)} MB; the page accepts at most ${Math.floor(most / 1e6)} MB.\nCompile it on the command line: byheart compile FILE -o DIR.` }, 413);
  }
  return answer(await send(`/api/data?name=${encodeURIComponent(uploadName(name))}`, { method: "POST", headers: { "content-type": "application/octet-stream" }, body: content }));
}

let state;
export const serverState = () => (state ??= get("/api/state"));

// --- jobs ---------------------------------------------------------------------------------------------------

const listeners = new Set();
export const onJobs = (listener) => { listeners.add(listener); };
export const jobsChanged = () => listeners.forEach((listener) => listener());

export const startJob = async (request) => {
  const job = await post("/api/jobs", request);
  jobsChanged();
  return job;
};

export const cancelJob = async (id) => {
  const job = await answer(await send(`/api/jobs/${id}`, { method: "DELETE" }));
  jobsChanged();
  return job;
};

export const isOver = (job) => job.state !== "waiting" && job.state !== "running";
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Follows a job until it ends or `signal` is aborted. `watch` is called with every update.
export async function follow(id, watch, signal) {
  for (let wait = 60; ; wait = Math.min(300, wait * 1.4)) {
    const job = await get(`/api/jobs/${encodeURIComponent(id)}`, { signal });
    if (signal?.aborted) return null;
    watch?.(job);
    if (isOver(job)) { jobsChanged(); return job; }
    await pause(wait);
  }
}

export async function runJob(request, watch, signal) {
  const job = await startJob(request);
  signal?.addEventListener("abort", () => { cancelJob(job.id).catch(() => {}); }, { once: true });
  const ended = await follow(job.id, watch, signal);
  if (ended?.state === "failed") throw new Refusal(ended.error, 0);
  return ended;
}
