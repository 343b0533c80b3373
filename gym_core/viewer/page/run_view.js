// One run: its numbers, and the table of its rollouts, which grows while the run goes on.

import { chip, message, rewardTone } from "./blocks.js";
import { h, redraw, replace } from "./dom.js";
import { reward, seconds, short, whole, words } from "./format.js";
import { headline, inFlight, measures, panels, runTitle, setup } from "./run_overview.js";
import { poll } from "./polling.js";
import { rolloutAddress } from "./routes.js";
import { makeTable } from "./table.js";
import { useKeys } from "./keys.js";

// What a reader chose in a run is there again when they come back from a rollout.
const chosen = new Map();

export function showRun(app, source, run) {
  const choice = chosen.get(run) || { text: "", verdict: "all", category: "", subtype: "", failure: "", selected: null, order: [] };
  chosen.set(run, choice);
  const rows = [];
  const thumbs = Object.create(null);
  let generation = null;
  let state = "running";

  const top = h("div", {});
  const search = h("input", {
    type: "search",
    placeholder: "Search tasks, questions, answers",
    "aria-label": "Search",
    testid: "search",
    value: choice.text,
    on: { input: () => set({ text: search.value }) },
  });
  const verdicts = h("div", { class: "segments", role: "group", "aria-label": "Filter by outcome" });
  const category = h("select", { "aria-label": "Category", testid: "filter-category", on: { change: () => set({ category: category.value, subtype: "" }) } });
  const failure = h("select", { "aria-label": "Failure", testid: "filter-failure", on: { change: () => set({ failure: failure.value }) } });
  const shown = h("span", { class: "faint small", testid: "shown" });
  const clear = h("button", { class: "quiet", type: "button", testid: "clear", on: { click: () => set({ text: "", verdict: "all", category: "", subtype: "", failure: "" }) } }, "Clear");
  const table = makeTable({
    testid: "rollouts",
    columns: columns((row) => source.pictureUrl({ sha256: row.picture, url: thumbs[row.picture] || "" })),
    link: (row) => (source.hasRollout(run, row.id) ? rolloutAddress(run, row.id) : null),
    onSort: () => filterRows(),
  });
  const toolbar = h("div", { class: "toolbar" }, search, verdicts, category, failure, clear, h("span", { class: "spring" }), shown);
  replace(app.main, h("div", { class: "page" }, top, toolbar, table.element));
  app.setPlace([{ name: "\u2026" }]);

  function set(change) {
    Object.assign(choice, change);
    if (search.value !== choice.text) search.value = choice.text;
    filterRows();
  }

  function filterRows() {
    const words_ = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = rows.filter((row) => matches(row, choice, words_));
    drawFilters();
    replace(shown, found.length === rows.length ? `${whole(rows.length)} rollouts` : `${whole(found.length)} of ${whole(rows.length)} rollouts`);
    clear.hidden = found.length === rows.length;
    choice.order = table.setRows(found).map((row) => row.id);
  }

  function drawFilters() {
    const counts = { all: rows.length, right: 0, part: 0, wrong: 0, masked: 0 };
    for (const row of rows) counts[rewardTone(row)] += 1;
    replace(
      verdicts,
      Object.entries(counts)
        .filter(([name, count]) => count || name === "all" || name === choice.verdict)
        .map(([name, count]) =>
          h(
            "button",
            { type: "button", "aria-pressed": String(choice.verdict === name), testid: `filter-${name}`, on: { click: () => set({ verdict: name }) } },
            name === "part" ? "partly" : name,
            h("span", { class: "faint" }, ` ${short(count)}`),
          ),
        ),
    );
    options(category, "All categories", unique(rows.map((row) => row.category)), choice.category);
    options(failure, "All failures", unique(rows.map((row) => row.failure || "")), choice.failure, words);
  }

  async function readRows(detail) {
    if (generation !== detail.generation) {
      generation = detail.generation;
      rows.length = 0;
    }
    while (rows.length < detail.rows) {
      const page = await source.rows(run, rows.length);
      if (page.generation !== generation) return;
      if (!page.rows.length) break;
      rows.push(...page.rows);
      Object.assign(thumbs, page.pictures);
    }
  }

  async function ask() {
    const detail = await source.run(run);
    if (detail === null) return null;
    await readRows(detail);
    return detail;
  }

  function show(detail) {
    state = detail.card.state;
    const filter = {
      category: (key) => set({ category: choice.category === key.category && choice.subtype === key.subtype ? "" : key.category, subtype: key.subtype }),
      failure: (kind) => set({ failure: choice.failure === kind ? "" : kind }),
    };
    app.setPlace([{ name: detail.card.name }]);
    app.setLive(state === "running");
    top.classList.toggle("running", state === "running");
    redraw(
      top,
      runTitle(detail.card),
      detail.card.problems.map((problem) => h("p", { class: "banner warn", testid: "problem" }, problem)),
      headline(detail),
      inFlight(detail),
      panels(detail, rows, filter),
      measures(detail),
      setup(detail),
    );
    filterRows();
    if (choice.selected) {
      const selected = choice.selected;
      choice.selected = null;
      requestAnimationFrame(() => table.selectRow(selected));
    }
  }

  function fail(error) {
    app.fail(error);
    if (error && generation === null) replace(top, message("This run cannot be shown", error.message, { testid: "error" }));
  }

  source.forget();
  const stop = poll(ask, show, () => (source.isLive ? (state === "running" ? 1000 : 4000) : 0), fail);
  useKeys({
    ...table.keys,
    "/": () => search.focus(),
    Escape: () => {
      if (choice.text || choice.verdict !== "all" || choice.category || choice.failure) clear.click();
      else location.hash = "#/";
    },
  });
  return () => {
    stop();
    table.close();
  };
}

/** Remembers which rollout was looked at, so that the table shows it again. Its place among the rows that the table
 *  showed, {place, count, previous, next}; null when it is in no table. */
export function noteVisit(run, rollout) {
  const choice = chosen.get(run);
  if (!choice) return null;
  choice.selected = rollout;
  const place = choice.order.indexOf(rollout);
  if (place < 0) return null;
  return { place, count: choice.order.length, previous: choice.order[place - 1] || null, next: choice.order[place + 1] || null };
}

function matches(row, choice, searched) {
  if (choice.verdict !== "all" && rewardTone(row) !== choice.verdict) return false;
  if (choice.category && row.category !== choice.category) return false;
  if (choice.subtype && row.subtype !== choice.subtype) return false;
  if (choice.failure && row.failure !== choice.failure) return false;
  if (!searched.length) return true;
  const text = [row.id, row.task, row.category, row.subtype, row.question, row.gold, row.answer, row.failure || "", row.verdict, ...row.flags].join("\n").toLowerCase();
  return searched.every((word) => text.includes(word));
}

function columns(pictureOf) {
  return [
    { name: "picture", label: "", title: "The puzzle", width: "30px", sort: (row) => row.picture, cell: (row) => tinyPicture(pictureOf(row)) },
    {
      name: "outcome",
      label: "Outcome",
      width: "92px",
      sort: (row) => (row.reward === null ? -1 : row.reward),
      cell: (row) => chip(row.reward === null ? "masked" : `${reward(row.reward)}`, rewardTone(row), { title: row.failure ? words(row.failure) : row.verdict }),
    },
    { name: "task", label: "Task", width: "minmax(84px, 0.7fr)", sort: (row) => row.index * 1000 + row.repeat, cell: (row) => [h("span", { class: "cut" }, row.task || String(row.index)), row.repeat ? h("span", { class: "faint" }, ` #${row.repeat + 1}`) : null] },
    { name: "subtype", label: "Type", hide: "wide", width: "minmax(110px, 1fr)", sort: (row) => `${row.category}/${row.subtype}`, cell: (row) => h("span", { class: "cut", title: row.category }, row.subtype || row.category) },
    { name: "question", label: "Question", hide: "wide", width: "minmax(160px, 2.4fr)", sort: (row) => row.question, cell: (row) => h("span", { class: "cut faint", title: row.question }, row.question) },
    { name: "gold", label: "Gold", width: "minmax(60px, 0.6fr)", sort: (row) => row.gold, cell: (row) => h("span", { class: "cut mono", title: row.gold }, row.gold) },
    { name: "answer", label: "Answer", width: "minmax(90px, 0.9fr)", sort: (row) => row.answer, cell: (row) => (row.failure ? h("span", { class: "cut warn" }, words(row.failure)) : h("span", { class: "cut mono", title: row.answer }, row.answer || "\u2013")) },
    { name: "turns", label: "Turns", width: "60px", align: "number", sort: (row) => row.turns, cell: (row) => whole(row.turns) },
    { name: "images", label: "Pics", title: "Pictures that the model received", width: "52px", align: "number", sort: (row) => row.images, cell: (row) => whole(row.images) },
    { name: "tokens", label: "Out", title: "Output tokens", width: "66px", align: "number", sort: (row) => row.output_tokens, cell: (row) => short(row.output_tokens) },
    { name: "seconds", label: "Time", width: "86px", align: "number", sort: (row) => row.seconds, cell: (row) => seconds(row.seconds) },
    { name: "flags", label: "Look", title: "What someone should look at", hide: "wide", width: "82px", sort: (row) => -row.flags.length, cell: (row) => (row.flags.length ? chip(row.flags.length > 1 ? `${row.flags.length} notes` : words(row.flags[0]), "warn", { title: row.flags.join(", ") }) : null) },
  ];
}

function tinyPicture(url) {
  if (!url) return null;
  const image = h("img", { class: "tiny", src: url, alt: "", loading: "lazy", decoding: "async", testid: "tiny-picture", on: { error: () => image.remove() } });
  return image;
}

function unique(values) {
  return [...new Set(values)].filter(Boolean).sort();
}

function options(select, all, values, value, label) {
  const key = JSON.stringify([values, value]);
  select.hidden = !values.length;
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  replace(
    select,
    h("option", { value: "" }, all),
    values.map((each) => h("option", { value: each, selected: each === value }, label ? label(each) : each)),
  );
}
