// Pictures, large: one after the other, in real size, or side by side with the puzzle.

import { button, h, replace, styled } from "./dom.js";
import { bytes } from "./format.js";
import { closeOverlay, openOverlay } from "./keys.js";

/** `pictures`: [{picture, where}]; `puzzles`: pictures of the task, for the comparison. */
export function openLightbox(source, pictures, at, puzzles) {
  const shown = pictures.filter(({ picture }) => source.pictureUrl(picture));
  let place = Math.max(0, shown.findIndex(({ picture }) => picture === pictures[at]?.picture));
  if (!shown.length) return;
  let isSplit = false;
  let isReal = false;
  const stage = h("div", { class: "stage" });
  const caption = h("div", { class: "caption" });
  const split = button("Side by side", () => set(() => (isSplit = !isSplit)), { class: "quiet", testid: "compare" });
  const real = button("Real size", () => set(() => (isReal = !isReal)), { class: "quiet", testid: "real-size" });
  const card = h(
    "div",
    { class: "lightbox", role: "dialog", "aria-modal": "true", "aria-label": "Pictures", testid: "lightbox" },
    h(
      "header",
      {},
      caption,
      h("span", { class: "spring" }),
      shown.length > 1 ? [button("\u2190", () => move(-1), { class: "quiet", "aria-label": "previous picture" }), button("\u2192", () => move(1), { class: "quiet", "aria-label": "next picture" })] : null,
      puzzles.length ? split : null,
      real,
      button("Close", closeOverlay, { class: "quiet", testid: "lightbox-close", "data-focus": true }),
    ),
    stage,
  );

  function set(change) {
    change();
    draw();
  }

  function move(step) {
    place = (place + step + shown.length) % shown.length;
    draw();
  }

  function draw() {
    const { picture, where } = shown[place];
    const puzzle = puzzles.find((each) => source.pictureUrl(each));
    const isPuzzle = puzzle && puzzle.sha256 === picture.sha256;
    const panes = isSplit && puzzle && !isPuzzle ? [pane(puzzle, "the puzzle"), pane(picture, where)] : [pane(picture, where)];
    replace(stage, panes);
    stage.classList.toggle("split", panes.length > 1);
    stage.classList.toggle("real", isReal);
    split.setAttribute("aria-pressed", String(isSplit));
    real.setAttribute("aria-pressed", String(isReal));
    replace(caption, h("b", {}, `${place + 1} / ${shown.length}`), h("span", {}, where), h("span", { class: "faint" }, `${picture.width}\u00d7${picture.height} \u00b7 ${bytes(picture.bytes)}`), h("code", { class: "faint wide" }, picture.sha256.slice(0, 16)));
  }

  function pane(picture, where) {
    const image = h("img", { src: source.pictureUrl(picture), alt: where, testid: "large-picture", draggable: "false", on: { click: () => set(() => (isReal = !isReal)) } });
    // Small crops are drawn with sharp pixels: what the model saw is not smoothed.
    if (picture.width < 500 && picture.height < 500) image.classList.add("sharp");
    styled(image, { "--natural": `${picture.width}px` });
    return h("figure", {}, image, h("figcaption", {}, where));
  }

  draw();
  openOverlay(card, {
    ArrowLeft: () => move(-1),
    ArrowRight: () => move(1),
    k: () => move(-1),
    j: () => move(1),
    s: () => set(() => (isSplit = !isSplit)),
    z: () => set(() => (isReal = !isReal)),
  });
}
