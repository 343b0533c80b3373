// Where the data comes from: the viewer's server, or this very file when it was exported.

export class Gone extends Error {}

const TOKEN = "gym-view-token";

/** The server's API. The token comes in the fragment of the link once and is kept for this origin alone. */
export class ServerSource {
  constructor() {
    this.isLive = true;
    this.etags = new Map();
    this.token = takeToken();
  }

  runs() {
    return this.fresh("/api/runs");
  }

  run(run) {
    return this.fresh(`/api/runs/${part(run)}`);
  }

  rows(run, start) {
    return this.get(`/api/runs/${part(run)}/rows?start=${start}`);
  }

  rollout(run, rollout) {
    return this.fresh(`/api/runs/${part(run)}/rollouts/${part(rollout)}`);
  }

  turns(run, rollout, start) {
    return this.get(`/api/runs/${part(run)}/rollouts/${part(rollout)}/turns?start=${start}`);
  }

  call(run, rollout, index) {
    return this.get(`/api/runs/${part(run)}/rollouts/${part(rollout)}/calls/${index}`);
  }

  text(run, rollout, id, start) {
    return this.get(`/api/runs/${part(run)}/rollouts/${part(rollout)}/texts/${part(id)}?start=${start}`);
  }

  pictureUrl(picture) {
    return picture.url.startsWith("/images/") ? picture.url : "";
  }

  hasRollout() {
    return true;
  }

  /** Forget what was seen of a path, so that the next `fresh` gives it whole. */
  forget() {
    this.etags.clear();
  }

  /** null when nothing changed since the last time. */
  async fresh(path) {
    const known = this.etags.get(path);
    const reply = await this.ask(path, known ? { "If-None-Match": known } : {});
    if (reply.status === 304) return null;
    const value = await reply.json();
    const etag = reply.headers.get("ETag");
    if (etag) this.etags.set(path, etag);
    return value;
  }

  async get(path) {
    return (await this.ask(path, {})).json();
  }

  async ask(path, headers) {
    const reply = await fetch(path, {
      headers: { ...headers, Authorization: `Bearer ${this.token}` },
      cache: "no-store",
      credentials: "omit",
    }).catch(() => {
      throw new Gone("The viewer's server does not answer. Is `gym view` still running?");
    });
    if (reply.ok || reply.status === 304) return reply;
    const message = await reply.json().then((body) => body.error.message, () => reply.statusText);
    if (reply.status === 401) throw new Gone("This link has no valid key. Open the link that `gym view` printed in the terminal.");
    throw new Gone(message);
  }
}

/** An exported file. */
export class FileSource {
  constructor(data) {
    this.isLive = false;
    this.data = data;
  }

  async runs() {
    return this.data.runs;
  }

  async run(run) {
    return found(own(this.data.details, run), "This file does not hold that run.");
  }

  async rows(run) {
    return own(this.data.rows, run);
  }

  async rollout(run, rollout) {
    return found(own(own(this.data.rollouts, run) || {}, rollout), "This file does not hold that rollout.");
  }

  async turns() {
    return { start: 0, total: 0, turns: [] };
  }

  async text() {
    throw new Gone("The rest of this text is not in the exported file.");
  }

  pictureUrl(picture) {
    const url = own(this.data.images, picture.sha256) || "";
    return /^data:image\/(png|jpeg|gif|webp|bmp);base64,/.test(url) ? url : "";
  }

  hasRollout(run, rollout) {
    return Boolean(own(own(this.data.rollouts, run) || {}, rollout));
  }

  forget() {}
}

export function openSource() {
  const block = document.getElementById("data");
  return block ? new FileSource(JSON.parse(block.textContent)) : new ServerSource();
}

function part(text) {
  return encodeURIComponent(text);
}

function own(object, key) {
  return object && Object.hasOwn(object, key) ? object[key] : null;
}

function found(value, message) {
  if (value === null) throw new Gone(message);
  return value;
}

function takeToken() {
  const given = /^#token=([A-Za-z0-9_-]+)$/.exec(location.hash);
  if (given) {
    remember(TOKEN, given[1]);
    history.replaceState(null, "", `${location.pathname}#/`);
    return given[1];
  }
  return recall(TOKEN) || "";
}

/** Storage may be switched off, and is where the page is a file. */
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // then it lasts as long as the page
  }
}

export function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
