// The keyboard: what each view does with a key, and the page that says so.

import { button, h } from "./dom.js";

const state = { view: {}, overlay: null };

const HELP = [
  ["Anywhere", [["?", "this help"], ["t", "light or dark"], ["Esc", "close, or one level up"]]],
  [
    "Lists",
    [["j  k  \u2193  \u2191", "next, previous"], ["Enter", "open"], ["/", "search"], ["g  G", "first, last"]],
  ],
  [
    "A rollout",
    [
      ["j  k", "next, previous turn"],
      ["\u2190  \u2192", "previous, next rollout"],
      ["i", "pictures, large"],
    ],
  ],
  ["A picture", [["\u2190  \u2192", "previous, next picture"], ["s", "side by side with the puzzle"], ["z", "real size"]]],
];

/** The keys of the view that is shown: key name to action. */
export function useKeys(keys) {
  state.view = keys;
}

/** An overlay takes all keys until it is closed. */
export function openOverlay(element, keys, onClose) {
  closeOverlay();
  const before = document.activeElement;
  document.getElementById("app").inert = true;
  state.overlay = { element, keys, onClose, before };
  document.body.append(element);
  const first = element.querySelector("[data-focus]") || element.querySelector("button");
  if (first) first.focus({ preventScroll: true });
}

export function closeOverlay() {
  const overlay = state.overlay;
  if (!overlay) return false;
  state.overlay = null;
  overlay.element.remove();
  document.getElementById("app").inert = false;
  if (overlay.onClose) overlay.onClose();
  if (overlay.before && overlay.before.isConnected) overlay.before.focus({ preventScroll: true });
  return true;
}

export function showHelp() {
  const groups = HELP.map(([name, keys]) =>
    h(
      "section",
      {},
      h("h3", {}, name),
      keys.map(([key, what]) =>
        h("div", { class: "help-row" }, h("span", { class: "keys" }, key.split("  ").map((k) => h("kbd", {}, k))), h("span", {}, what)),
      ),
    ),
  );
  const card = h(
    "div",
    { class: "dialog help", role: "dialog", "aria-modal": "true", "aria-label": "Keyboard", testid: "help" },
    h("header", {}, h("h2", {}, "Keyboard"), button("Close", closeOverlay, { class: "quiet", testid: "help-close" })),
    h("div", { class: "help-groups" }, groups),
  );
  openOverlay(shade(card), {});
}

/** The dark behind a dialog; a click on it closes. */
export function shade(card) {
  return h(
    "div",
    { class: "shade", on: { click: (event) => event.target === event.currentTarget && closeOverlay() } },
    card,
  );
}

export function listenToKeys(common) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target instanceof Element ? event.target : null;
    const isTyping = target !== null && target.matches("input, textarea, select");
    if (isTyping && event.key !== "Escape") return;
    if (isTyping) {
      target.blur();
      return;
    }
    const act = actionOf(event.key, common);
    if (!act) return;
    if (event.key === "Enter" && target && target.matches("a, button, summary")) return;
    event.preventDefault();
    act(event);
  });
}

function actionOf(key, common) {
  if (state.overlay) return key === "Escape" ? closeOverlay : state.overlay.keys[key];
  return state.view[key] || common[key];
}
