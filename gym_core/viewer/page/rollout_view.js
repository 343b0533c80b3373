// One rollout: the conversation turn by turn, the puzzle beside it.

import { openCall } from "./call_dialog.js";
import { stackedBar } from "./charts.js";
import { chip, message, rewardTone } from "./blocks.js";
import { append, button, h, redraw, replace } from "./dom.js";
import { reward, seconds, whole, words } from "./format.js";
import { openLightbox } from "./lightbox.js";
import { poll } from "./polling.js";
import { rolloutAddress, runAddress } from "./routes.js";
import { noteVisit } from "./run_view.js";
import { gradePanel, healthPanel, originPanel, puzzlePanel, timePanel, tokenPanel } from "./side_panel.js";
import { turnCard } from "./turn_view.js";
import { useKeys } from "./keys.js";

export function showRollout(app, source, run, rollout) {
  let view = null;
  let current = 0;
  const shell = h("div", { class: "page" });
  const title = h("div", {});
  const side = h("aside", { class: "side", testid: "side" });
  const above = h("div", {});
  const turns = h("div", { class: "turns", testid: "turns" });
  const below = h("div", {});
  const cards = new WeakMap();
  replace(app.main, shell);
  app.setPlace([{ name: "\u2026", href: runAddress(run) }, { name: rollout }]);
  const order = noteVisit(run, rollout);

  const page = {
    source,
    hasCalls: source.isLive,
    more: (id, start) => source.text(run, rollout, id, start),
    open: (picture) => openPictures(picture),
    showCall: async (index) => {
      try {
        const call = await source.call(run, rollout, index);
        openCall(call, { ...page, open: (picture) => openLightbox(source, [{ picture, where: `call ${index + 1}` }], 0, puzzles()) });
      } catch (error) {
        app.fail(error);
      }
    },
  };

  function puzzles() {
    return view.prompts.flatMap((prompt) => prompt.images);
  }

  function allPictures() {
    const found = [];
    const seen = new Set();
    const note = (picture, where) => {
      if (seen.has(picture.sha256)) return;
      seen.add(picture.sha256);
      found.push({ picture, where });
    };
    for (const picture of puzzles()) note(picture, "the puzzle");
    for (const turn of view.turns.turns) {
      for (const part of turn.parts) for (const picture of part.images || []) note(picture, `turn ${turn.number}`);
    }
    for (const picture of view.pictures) note(picture, "a model call");
    return found;
  }

  function openPictures(picture) {
    const all = allPictures();
    const place = picture ? all.findIndex((each) => each.picture.sha256 === picture.sha256) : 0;
    openLightbox(source, all, place < 0 ? 0 : place, puzzles());
  }

  function show(news) {
    const drawn = view ? turnsDrawn() : new Map();
    view = news;
    app.setPlace([{ name: view.run, href: runAddress(run) }, { name: rollout }]);
    app.setLive(view.state === "running");
    redraw(side, puzzlePanel(view, page), gradePanel(view, page), timePanel(view), tokenPanel(view), healthPanel(view, page), originPanel(view));
    replace(title, heading());
    replace(above, strip());
    turns.replaceChildren(...view.turns.turns.map((turn) => drawn.get(JSON.stringify(turn)) || drawTurn(turn)));
    replace(below, rest(), ending());
    if (!shell.contains(title)) replace(shell, title, h("div", { class: "rollout", testid: "rollout" }, side, h("div", { class: "conversation" }, above, turns, below)));
  }

  function drawTurn(turn) {
    const card = turnCard(turn, page);
    cards.set(card, JSON.stringify(turn));
    return card;
  }

  /** Turns that are on the page, by what they say: one that did not change keeps what was unfolded and scrolled in it. */
  function turnsDrawn() {
    return new Map([...turns.children].map((card) => [cards.get(card), card]));
  }

  function heading() {
    const { row } = view;
    const name = row.task ? `${row.task}${row.repeat ? ` #${row.repeat + 1}` : ""}` : row.id;
    return h(
      "div",
      { class: "title" },
      h("h1", { testid: "rollout-name" }, name),
      view.state === "running" ? chip("running", "live", { testid: "state" }) : chip(row.reward === null ? "masked" : `reward ${reward(row.reward)}`, rewardTone(row)),
      row.failure ? chip(words(row.failure), "warn") : null,
      view.status && view.status !== "completed" ? chip(view.status, "warn") : null,
      row.flags.map((flag) => chip(words(flag), "warn")),
      h("span", { class: "faint" }, [row.category, row.subtype].filter(Boolean).join(" / ")),
      h(
        "span",
        { class: "steps" },
        order ? h("span", { class: "faint small", testid: "position" }, `${whole(order.place + 1)} of ${whole(order.count)} shown`) : null,
        neighbour(beside("previous"), "\u2190 Previous", "previous"),
        neighbour(beside("next"), "Next \u2192", "next"),
      ),
    );
  }

  /** In the order of the table one came from; in the file's order for whoever came by a link. */
  function beside(which) {
    return order ? order[which] : view[which];
  }

  function neighbour(id, label, testid) {
    if (!id || !source.hasRollout(run, id)) return null;
    return h("a", { class: "button quiet", href: rolloutAddress(run, id), testid }, label);
  }

  /** Every turn's time in a row: where the rollout was slow, and the way there. */
  function strip() {
    const parts = [];
    for (const turn of view.turns.turns) {
      if (!turn.call) continue;
      const act = () => go(turn.number);
      const model = Math.max(0, turn.call.seconds - turn.call.queued_s);
      if (turn.call.queued_s > 0.01) parts.push({ value: turn.call.queued_s, tone: "queued", title: `turn ${turn.number}, waiting: ${seconds(turn.call.queued_s)}`, act });
      parts.push({ value: model, tone: "model", title: `turn ${turn.number}, model: ${seconds(model)}`, act });
      if (turn.tools_s) parts.push({ value: turn.tools_s, tone: "tools", title: `turn ${turn.number}, shell: ${seconds(turn.tools_s)}`, act });
    }
    if (!parts.length) return null;
    return h("div", { class: "strip" }, h("span", { class: "faint small" }, `${whole(view.turns.total)} turns in time`), stackedBar(parts, { class: "stack tall", testid: "turn-strip" }), h("span", { class: "faint small legend-line" }, h("i", { class: "dot tone-model" }), "model ", h("i", { class: "dot tone-tools" }), "shell ", h("i", { class: "dot tone-queued" }), "waiting"));
  }

  function rest() {
    const left = () => view.turns.total - turns.children.length;
    if (left() <= 0 || !source.isLive) return null;
    const label = () => `Show ${whole(Math.min(100, left()))} more of ${whole(view.turns.total)} turns`;
    const next = button(
      label(),
      async () => {
        const found = await source.turns(run, rollout, turns.children.length).catch((error) => app.fail(error));
        if (!found) return;
        view.turns.turns.push(...found.turns);
        append(turns, found.turns.map(drawTurn));
        next.textContent = label();
        if (left() <= 0 || !found.turns.length) next.remove();
      },
      { testid: "more-turns" },
    );
    return next;
  }

  function ending() {
    if (!view.turns.total) return h("p", { class: "faint pad", testid: "no-turns" }, view.state === "running" ? "No answer of the model yet." : "Nothing was played.");
    if (view.state === "running") return h("p", { class: "faint pad waiting", testid: "waiting" }, "It goes on\u2026");
    return null;
  }

  function go(number) {
    const all = shell.querySelectorAll(".turn");
    if (number > all.length) below.querySelector("[data-testid=more-turns]")?.click();
    current = Math.max(1, Math.min(all.length, number));
    all.forEach((turn) => turn.toggleAttribute("data-selected", Number(turn.dataset.turn) === current));
    const target = all[current - 1];
    if (target) target.scrollIntoView({ block: "start", behavior: "instant" });
  }

  /** The turn at the top of the screen, from which j and k go on. */
  function seen() {
    const all = [...shell.querySelectorAll(".turn")];
    if (current && all[current - 1]) {
      const box = all[current - 1].getBoundingClientRect();
      if (box.bottom > 60 && box.top < innerHeight) return current;
    }
    const place = all.findIndex((turn) => turn.getBoundingClientRect().bottom > 120);
    return place < 0 ? all.length : place;
  }

  function fail(error) {
    app.fail(error);
    if (error && view === null) replace(shell, message("This rollout cannot be shown", error.message, { testid: "error" }));
  }

  const visit = (which) => () => {
    if (!view) return;
    const id = beside(which);
    if (id && source.hasRollout(run, id)) location.hash = rolloutAddress(run, id);
  };
  useKeys({
    j: () => go(seen() + 1),
    k: () => go(seen() - 1),
    g: () => scrollTo(0, 0),
    G: () => go(shell.querySelectorAll(".turn").length),
    i: () => view && openPictures(null),
    ArrowLeft: visit("previous"),
    ArrowRight: visit("next"),
    Escape: () => (location.hash = runAddress(run)),
  });
  source.forget();
  return poll(() => source.rollout(run, rollout), show, () => (source.isLive && (view === null || view.state === "running") ? 1000 : 0), fail);
}
