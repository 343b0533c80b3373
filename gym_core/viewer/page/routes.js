// Addresses within the page: `#/`, `#/run/<id>`, `#/run/<id>/rollout/<rollout id>`.

export function runAddress(run) {
  return `#/run/${encodeURIComponent(run)}`;
}

export function rolloutAddress(run, rollout) {
  return `${runAddress(run)}/rollout/${encodeURIComponent(rollout)}`;
}

/** {view, run, rollout}; an address that is none leads to the list of runs. */
export function readAddress(hash) {
  const match = /^#\/run\/([^/?]+)(?:\/rollout\/([^/?]+))?\/?$/.exec(hash);
  if (!match) return { view: "runs" };
  try {
    const run = decodeURIComponent(match[1]);
    return match[2] ? { view: "rollout", run, rollout: decodeURIComponent(match[2]) } : { view: "run", run };
  } catch {
    return { view: "runs" };
  }
}
