// Pieces of a rollout's page: texts that are cut and go on, pictures, labels.

import { append, button, h, styled } from "./dom.js";
import { bytes, short } from "./format.js";

/** A text with a way to its rest. `more(id, start)` fetches a slice. */
export function clipped(clip, more, props) {
  const body = h("div", { class: "text", ...props }, clip.text);
  if (!clip.id) return body;
  let shown = clip.text.length;
  // Lengths are counted in code points by the server and in UTF-16 units here; only the server's are sent back.
  let start = [...clip.text].length;
  const note = h("div", { class: "more" });
  const left = () => `Show more (${short(Math.max(0, clip.length - start))} characters left)`;
  const act = async () => {
    next.disabled = true;
    try {
      const slice = await more(clip.id, start);
      start += [...slice.text].length;
      shown += slice.text.length;
      append(body, [slice.text]);
      if (start >= slice.length || !slice.text) note.remove();
      next.textContent = left();
      next.disabled = false;
    } catch (error) {
      note.replaceChildren();
      append(note, [h("span", { class: "faint" }, `${short(clip.length - start)} more characters. ${error.message}`)]);
    }
  };
  const next = button(left(), act, { class: "quiet", testid: "show-more" });
  note.append(next);
  return h("div", {}, body, note);
}

/** Output of a program: fixed width, scrolls by itself. */
export function code(clip, more, props) {
  return clipped(clip, more, { ...props, class: `text code ${props?.class || ""}` });
}

/** A picture that opens large. `open()` is called on a click. */
export function thumbnail(source, picture, open, props) {
  const url = source.pictureUrl(picture);
  const name = picture.sha256.slice(0, 12);
  if (!url) {
    const why = picture.problem || "left out of this file";
    return h("div", { class: "no-picture", testid: "no-picture", title: picture.sha256 }, h("b", {}, "No picture"), h("span", {}, `${name}: ${why}`));
  }
  const image = h("img", {
    src: url,
    alt: `picture ${name}, ${picture.width} by ${picture.height} pixels`,
    width: picture.width || null,
    height: picture.height || null,
    loading: "lazy",
    decoding: "async",
  });
  const facts = [`${picture.width}\u00d7${picture.height}`, bytes(picture.bytes)];
  return h(
    "button",
    { class: "thumb", type: "button", testid: "picture", "data-sha256": picture.sha256, on: { click: open }, ...props },
    image,
    h("span", { class: "thumb-facts" }, facts.join(" \u00b7 "), picture.seen === false ? h("span", { class: "warn" }, "not in a model call") : null),
  );
}

export function chip(text, tone, props) {
  return h("span", { class: `chip ${tone || ""}`, ...props }, text);
}

export function rewardTone(row) {
  if (row.reward === null) return "masked";
  if (row.reward >= 1) return "right";
  return row.reward > 0 ? "part" : "wrong";
}

export function section(title, ...children) {
  return h("section", { class: "block" }, h("h3", {}, title), children);
}

/** Names and values in two columns; empty values are left out. */
export function facts(pairs, props) {
  return h(
    "dl",
    { class: "facts", ...props },
    pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

export function dot(tone) {
  return styled(h("span", { class: `dot tone-${tone}` }), {});
}

export function message(title, text, props) {
  return h("div", { class: "message", ...props }, h("h2", {}, title), h("p", {}, text));
}
