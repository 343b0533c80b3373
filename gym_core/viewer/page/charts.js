// Small charts of a run, drawn with elements: intervals, bars, histograms.

import { h, s, styled } from "./dom.js";
import { score, whole } from "./format.js";

/** A mean with its 95 % interval on a track from 0 to 1. */
export function intervalPlot(estimate) {
  const track = h("span", { class: "interval", "aria-hidden": "true" });
  if (estimate.mean === null) return track;
  const low = estimate.ci_low_95 ?? estimate.mean;
  const high = estimate.ci_high_95 ?? estimate.mean;
  track.append(
    styled(h("span", { class: "interval-range" }), { left: percent(low), width: percent(high - low) }),
    styled(h("span", { class: "interval-mean" }), { left: percent(estimate.mean) }),
  );
  return track;
}

/** Rows of a name, a bar and a number. `items`: {name, value, text, tone, title, level}. */
export function barList(items, largest, onPick) {
  const top = largest || Math.max(...items.map((item) => item.value), 1e-9);
  return h(
    "div",
    { class: "bars" },
    items.map((item) => {
      const bar = styled(h("span", { class: `bar ${item.tone || ""}` }), { width: percent(item.value / top) });
      const cells = [
        h("span", { class: "bar-name" }, item.name),
        h("span", { class: "bar-track" }, bar),
        h("span", { class: "bar-value" }, item.text),
      ];
      if (!onPick) return h("div", { class: "bar-row", title: item.title }, cells);
      return h("button", { class: "bar-row", type: "button", title: item.title, on: { click: () => onPick(item) } }, cells);
    }),
  );
}

/** Means by group, each with its interval and how many it is of. */
export function estimateList(items, onPick) {
  return h(
    "div",
    { class: "estimates" },
    items.map(({ name, estimate, level, key }) =>
      h(
        "button",
        {
          class: level ? "estimate sub" : "estimate",
          type: "button",
          testid: "estimate",
          title: `${name}: ${whole(estimate.rollouts)} measured, ${whole(estimate.masked)} masked, ${whole(estimate.missing)} missing; ${whole(estimate.tasks)} tasks`,
          on: { click: () => onPick(key) },
        },
        h("span", { class: "estimate-name" }, name),
        intervalPlot(estimate),
        h("span", { class: "estimate-mean" }, score(estimate.mean)),
        countOf(estimate),
      ),
    ),
  );
}

/** Measured rollouts; where some are not, of how many. */
function countOf(estimate) {
  const planned = estimate.rollouts + estimate.masked + estimate.missing;
  const isWhole = planned === estimate.rollouts;
  return h("span", { class: isWhole ? "estimate-n" : "estimate-n warn" }, isWhole ? whole(planned) : `${whole(estimate.rollouts)}/${whole(planned)}`);
}

const BINS = 20;
const WIDTH = 240;
const HEIGHT = 56;

/** How numbers are spread; each bin's right and wrong and masked stand on each other. `values`: {value, tone}. */
export function histogram(values, label, isWhole) {
  const largest = Math.max(...values.map((v) => v.value), 0);
  if (!values.length || largest <= 0) return h("p", { class: "faint" }, "nothing to show yet");
  const step = isWhole ? Math.max(1, Math.ceil(niceStep(largest / BINS))) : niceStep(largest / BINS);
  const bins = Array.from({ length: Math.floor(largest / step) + 1 }, () => ({ right: 0, wrong: 0, masked: 0 }));
  for (const { value, tone } of values) bins[Math.max(0, Math.min(bins.length - 1, Math.floor(value / step)))][tone] += 1;
  const tallest = Math.max(...bins.map((bin) => bin.right + bin.wrong + bin.masked));
  const each = WIDTH / bins.length;
  const bars = [];
  bins.forEach((bin, place) => {
    let y = HEIGHT;
    const group = s("g", {}, s("title", {}, `${isWhole && step === 1 ? label(place) : `${label(place * step)} \u2013 ${label((place + 1) * step)}`}: ${bin.right} right, ${bin.wrong} wrong, ${bin.masked} masked`));
    group.append(s("rect", { class: "hit", x: place * each, y: 0, width: each, height: HEIGHT }));
    for (const tone of ["right", "wrong", "masked"]) {
      const height = (bin[tone] / tallest) * HEIGHT;
      y -= height;
      if (height > 0) {
        group.append(s("rect", { class: `fill-${tone}`, x: place * each + 0.5, y, width: Math.max(each - 1, 0.5), height }));
      }
    }
    bars.push(group);
  });
  const chart = s("svg", { class: "histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, bars);
  const axis = h("div", { class: "axis" }, h("span", {}, label(0)), h("span", {}, label(isWhole ? largest : bins.length * step)));
  return h("div", {}, chart, axis);
}

/** Parts of a whole side by side. `parts`: {name, value, tone, title, act}. */
export function stackedBar(parts, props) {
  const all = parts.reduce((sum, each) => sum + each.value, 0) || 1;
  return h(
    "div",
    { class: "stack", ...props },
    parts.map((each) => {
      const tag = each.act ? "button" : "span";
      const element = h(tag, { class: `stack-part tone-${each.tone}`, title: each.title, type: each.act ? "button" : null, tabindex: each.act ? "-1" : null, "aria-label": each.act ? each.title : null, on: each.act ? { click: each.act } : {} });
      return styled(element, { "flex-grow": String(each.value / all) });
    }),
  );
}

function niceStep(raw) {
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = [1, 2, 2.5, 5, 10].find((f) => f * power >= raw) || 10;
  return factor * power;
}

function percent(share) {
  return `${Math.max(0, Math.min(1, share)) * 100}%`;
}
