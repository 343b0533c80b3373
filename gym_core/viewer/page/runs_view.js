// The list of runs.

import { intervalPlot } from "./charts.js";
import { h, replace } from "./dom.js";
import { chip, message } from "./blocks.js";
import { counted, interval, money, score, short, when, whole } from "./format.js";
import { poll } from "./polling.js";
import { runAddress } from "./routes.js";
import { useKeys } from "./keys.js";

const STATE_TONES = { running: "live", finished: "", partial: "warn", empty: "faint" };

export function showRuns(app, source) {
  const list = h("div", { class: "runs", testid: "runs" });
  const count = h("span", { class: "faint" });
  replace(app.main, h("div", { class: "page" }, h("div", { class: "title" }, h("h1", {}, "Runs"), count), list));
  app.setPlace([]);
  let selected = -1;

  function show(runs) {
    replace(count, counted(runs.runs.length, "run"));
    if (!runs.runs.length) {
      replace(list, message("No run yet", "Runs appear here as soon as their first file is written.", { testid: "no-runs" }));
      return;
    }
    replace(list, runs.runs.map(card));
    mark();
  }

  function mark() {
    [...list.children].forEach((element, place) => element.toggleAttribute("data-selected", place === selected));
  }

  function select(place) {
    selected = Math.max(0, Math.min(list.children.length - 1, place));
    mark();
    list.children[selected]?.scrollIntoView({ block: "nearest" });
  }

  useKeys({
    j: () => select(selected + 1),
    k: () => select(selected - 1),
    ArrowDown: () => select(selected + 1),
    ArrowUp: () => select(selected - 1),
    g: () => select(0),
    G: () => select(list.children.length - 1),
    Enter: () => list.children[selected]?.click(),
  });
  return poll(() => source.runs(), show, () => (source.isLive ? 2000 : 0), app.fail);
}

function card(run) {
  const { coverage, reward } = run;
  return h(
    "a",
    { class: "run-card", href: runAddress(run.id), testid: "run", "data-id": run.id },
    h(
      "div",
      { class: "run-name" },
      h("div", { class: "run-line" }, h("b", {}, run.name), stateChip(run.state)),
      h("div", { class: "faint small cut", title: run.folder }, [run.environment, run.model].filter(Boolean).join(" \u00b7 ") || run.folder),
      run.problems.map((problem) => h("div", { class: "warn small", testid: "problem" }, problem)),
    ),
    h(
      "div",
      { class: "run-score" },
      h("div", { class: "figure" }, h("b", { testid: "score" }, score(reward.mean)), h("span", { class: "faint small" }, interval(reward) || "no interval")),
      intervalPlot(reward),
    ),
    cell("measured", `${whole(coverage.measured)} / ${whole(coverage.expected)}`),
    cell("masked", whole(coverage.masked), coverage.masked ? "warn" : "faint"),
    cell("missing", whole(coverage.missing), coverage.missing && run.state !== "running" ? "warn" : "faint"),
    cell("tokens", `${short(run.input_tokens)} in, ${short(run.output_tokens)} out`, "", "wide"),
    cell("cost", run.cost === null ? "\u2013" : money(run.cost, run.currency), run.cost === null ? "faint" : "", "wide"),
    cell("started", when(run.started_at), "", "wide"),
  );
}

function cell(name, value, tone, hide) {
  return h("div", { class: `run-cell ${hide || ""}`, testid: `run-${name}` }, h("span", { class: "label" }, name), h("span", { class: tone || "" }, value));
}

export function stateChip(state) {
  return chip(state, STATE_TONES[state], { testid: "state" });
}

