// The numbers of a run, above its table.

import { barList, estimateList, histogram, intervalPlot } from "./charts.js";
import { chip, facts, rewardTone } from "./blocks.js";
import { h } from "./dom.js";
import { ago, counted, interval, money, score, seconds, short, when, whole, words } from "./format.js";
import { rolloutAddress } from "./routes.js";
import { stateChip } from "./runs_view.js";

/** The line with the score. */
export function headline(detail) {
  const { card, metrics } = detail;
  const { coverage, reward } = card;
  const passes = Object.entries(metrics.key_metrics).filter(([name]) => /^(pass|avg|majority|maj)@\d+$/.test(name));
  const lastPass = passes.filter(([name]) => name.startsWith("pass@")).slice(-1);
  const others = passes.filter(([name]) => !name.startsWith("pass@")).slice(-2);
  return h(
    "div",
    { class: "headline", testid: "headline" },
    h(
      "div",
      { class: "score" },
      h("span", { class: "label" }, "mean reward"),
      h("b", { testid: "score" }, score(reward.mean)),
      h("span", { class: "faint small", testid: "interval" }, interval(reward) ? `95 %: ${interval(reward)}` : "no interval yet"),
      intervalPlot(reward),
    ),
    figure("measured", `${whole(coverage.measured)}`, `of ${counted(coverage.expected, "rollout")}`),
    figure("tasks", whole(reward.tasks), coverage.fully_masked_tasks ? `${whole(coverage.fully_masked_tasks)} wholly masked` : "measured"),
    figure("masked", whole(coverage.masked), coverage.masked ? "in no mean" : "none", coverage.masked ? "warn" : ""),
    missing(coverage.missing, card.state === "running"),
    [...lastPass, ...others].map(([name, value]) => figure(name, score(value), passNote(metrics, name))),
    figure("tokens", short(card.input_tokens + card.output_tokens), `${short(card.input_tokens)} in, ${short(card.output_tokens)} out`),
    card.cost === null ? null : figure("cost", money(card.cost, card.currency), ""),
    metrics.seconds.total ? figure("time", seconds(metrics.seconds.total.median), `median; 95th ${seconds(metrics.seconds.total.p95)}`) : null,
  );
}

/** The interval of pass@k, the spread of avg@k over its passes. */
function passNote(metrics, name) {
  const estimate = name.startsWith("pass@") ? metrics.pass_at[name.slice(5)] : null;
  const spread = metrics.key_metrics[`${name}/std`];
  if (estimate) return interval(estimate);
  return spread === undefined ? "" : `std ${score(spread)} over passes`;
}

function missing(count, isRunning) {
  if (!count) return figure("missing", "0", "none");
  return isRunning ? figure("missing", whole(count), "still to play") : figure("missing", whole(count), "planned, not finished", "warn");
}

function figure(name, value, note, tone) {
  return h("div", { class: "figure", testid: `figure-${name}` }, h("span", { class: "label" }, name), h("b", { class: tone || "" }, value), h("span", { class: "faint small" }, note));
}

export function panels(detail, rows, filter) {
  return h(
    "div",
    { class: "panels" },
    panel("Categories", "categories", categories(detail.metrics, filter)),
    panel("Failures", "failures", failures(detail, filter)),
    panel("Tools, a rollout", "tools", tools(detail.metrics)),
    panel("Spread", "spread", spreads(rows)),
  );
}

function panel(title, testid, content) {
  return h("section", { class: "panel", testid }, h("h3", {}, title), h("div", { class: "panel-body" }, content));
}

function categories(metrics, filter) {
  const items = [];
  for (const [name, estimate] of Object.entries(metrics.by_category)) {
    items.push({ name, estimate, level: 0, key: { category: name, subtype: "" } });
    for (const [path, sub] of Object.entries(metrics.by_subtype)) {
      if (path.startsWith(`${name}/`)) {
        const subtype = path.slice(name.length + 1);
        items.push({ name: subtype, estimate: sub, level: 1, key: { category: name, subtype } });
      }
    }
  }
  return items.length ? estimateList(items, filter.category) : h("p", { class: "faint" }, "The tasks name no categories.");
}

function failures(detail, filter) {
  const { metrics } = detail;
  const masked = metrics.masked_failures;
  const items = Object.entries(metrics.failures)
    .sort((a, b) => b[1] - a[1])
    .map(([kind, count]) => ({
      name: words(kind),
      key: kind,
      value: count,
      text: whole(count),
      tone: masked[kind] ? "tone-masked" : "tone-wrong",
      title: masked[kind] ? "masked: a failure of ours, in no mean" : "scored 0: the model's doing",
    }));
  const attempts = Object.entries(detail.attempts_by_kind).sort((a, b) => b[1] - a[1]);
  return [
    items.length ? barList(items, 0, (item) => filter.failure(item.key)) : h("p", { class: "faint" }, "No finished rollout failed."),
    attempts.length
      ? h(
          "details",
          { class: "small attempts", testid: "attempts" },
          h("summary", {}, `${counted(detail.attempts_total, "broken attempt")}, played again`),
          attempts.map(([kind, count]) => h("div", {}, chip(words(kind), "warn"), ` ${whole(count)}`)),
          detail.attempts.slice(0, 20).map((each) => h("p", { class: "faint" }, `${when(each.failed_at)} task ${each.task_index}, attempt ${each.attempt + 1}, ${each.stage}: ${each.reason}`)),
        )
      : null,
  ];
}

/** Means of the environment's own columns: over all rollouts, and unfolded by subtype. Null where it has none. */
export function measures(detail) {
  const entries = Object.entries(detail.metrics.measures);
  if (!entries.length) return null;
  const subtypes = [...new Set(entries.flatMap(([, measure]) => Object.keys(measure.by_subtype)))].sort();
  const line = (name, read) => h("tr", {}, h("th", { scope: "row" }, name), entries.map(([, measure]) => meanCell(read(measure))));
  const head = h("thead", {}, h("tr", {}, h("td", {}), entries.map(([name]) => h("th", { scope: "col" }, words(name)))));
  const bySubtype = subtypes.map((path) => line(path.slice(path.indexOf("/") + 1), (measure) => measure.by_subtype[path]));
  const overall = entries.map(([name, measure]) => `${words(name)} ${measure.overall.mean.toFixed(2)}`).join(", ");
  return h(
    "details",
    { class: "setup measures", testid: "measures" },
    h("summary", {}, `Measured by the environment, mean a rollout: ${overall}`),
    h("table", {}, head, h("tbody", {}, line("all", (measure) => measure.overall), bySubtype)),
  );
}

function meanCell(estimate) {
  if (!estimate || estimate.mean === null) return h("td", { class: "faint" }, "-");
  return h("td", { title: `${counted(estimate.rollouts, "rollout")}${interval(estimate) ? `, 95 %: ${interval(estimate)}` : ""}` }, estimate.mean.toFixed(2));
}

function tools(metrics) {
  const items = Object.entries(metrics.tool_calls)
    .sort((a, b) => b[1].mean - a[1].mean)
    .map(([name, spread]) => ({
      name,
      value: spread.mean,
      text: spread.mean < 10 ? spread.mean.toFixed(1) : short(Math.round(spread.mean)),
      tone: "tone-model",
      title: `mean ${spread.mean.toFixed(2)}, median ${spread.median}, 95th percentile ${spread.p95}, most ${spread.max}`,
    }));
  return items.length ? barList(items) : h("p", { class: "faint" }, "No tool was called.");
}

function spreads(rows) {
  const values = (read) => rows.map((row) => ({ value: read(row), tone: toneOf(row) }));
  const kinds = [
    ["output tokens", values((row) => row.output_tokens), short, true],
    ["time", values((row) => row.seconds), seconds, false],
    ["turns", values((row) => row.turns), short, true],
    ["pictures", values((row) => row.images), short, true],
  ];
  return h(
    "div",
    { class: "spreads" },
    kinds.map(([name, all, label, isWhole]) => h("div", { testid: "histogram" }, h("span", { class: "label" }, name), histogram(all, label, isWhole))),
  );
}

function toneOf(row) {
  const tone = rewardTone(row);
  return tone === "part" ? "wrong" : tone;
}

export function inFlight(detail) {
  if (!detail.in_flight.length) return null;
  return h(
    "section",
    { class: "in-flight", testid: "in-flight" },
    h("h3", {}, `Running now: ${whole(detail.in_flight.length)}`),
    detail.in_flight.slice(0, 24).map((session) =>
      h(
        "a",
        { class: "flight", href: rolloutAddress(detail.card.id, session.rollout), testid: "flight" },
        h("b", {}, session.rollout),
        h("span", { class: "faint small" }, `attempt ${session.attempt + 1}, last call ${ago(session.last_call_at)}`),
      ),
    ),
  );
}

/** What ran. */
export function setup(detail) {
  const manifest = detail.manifest;
  if (!manifest) return null;
  const derived = manifest.derived_from ? plain(manifest.derived_from) : null;
  const options = plain(manifest.options);
  const datasets = Object.entries(plain(manifest.datasets)).map(([name, each]) => `${name} ${String(plain(each).sha256 || "").slice(0, 12)}`);
  const versions = Object.entries(plain(manifest.versions)).map(([name, version]) => `${name} ${version}`);
  return h(
    "details",
    { class: "setup", testid: "setup" },
    h("summary", {}, "What ran"),
    facts([
      ["run hash", String(manifest.run_hash || "")],
      ["started", when(manifest.started_at)],
      ["datasets", datasets.join(", ")],
      ["versions", versions.join(", ")],
      ["command", Array.isArray(manifest.argv) ? manifest.argv.join(" ") : ""],
      ["made from", derived ? `${words(String(derived.kind))} of ${derived.path}` : ""],
      ["options", JSON.stringify(options)],
    ]),
    h("details", {}, h("summary", {}, "Endpoint"), h("pre", { class: "text code" }, JSON.stringify(manifest.endpoint ?? null, null, 2))),
    h("details", {}, h("summary", {}, "What a score depends on"), h("pre", { class: "text code" }, JSON.stringify(detail.identity ?? null, null, 2))),
  );
}

function plain(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}

export function runTitle(card) {
  return h(
    "div",
    { class: "title" },
    h("h1", { testid: "run-name" }, card.name),
    stateChip(card.state),
    h("span", { class: "faint" }, [card.environment, card.model].filter(Boolean).join(" \u00b7 ")),
  );
}
