// One turn: what the model said, what its tools gave back, and what the call behind it cost.

import { chip, clipped, code, thumbnail } from "./blocks.js";
import { button, h } from "./dom.js";
import { seconds, short, whole, words } from "./format.js";

const LONG_REASONING = 1500;

/** `page`: {source, more(id, start), open(picture), showCall(index), hasCalls}. */
export function turnCard(turn, page) {
  const { call } = turn;
  return h(
    "article",
    { class: "turn", id: `turn-${turn.number}`, testid: "turn", "data-turn": turn.number, tabindex: "-1" },
    h(
      "header",
      {},
      h("b", {}, `Turn ${turn.number}`),
      call ? turnFacts(turn, call) : h("span", { class: "faint small" }, "no model call is known for it"),
      h("span", { class: "spring" }),
      call && call.drift ? chip(`drift: ${words(call.drift.reason)}`, "warn", { title: `${call.drift.tokens} tokens from ${call.drift.position} on are not continued` }) : null,
      call && page.hasCalls ? button("As sent", () => page.showCall(call.index), { class: "quiet small", testid: "as-sent", title: "The call as the model got it" }) : null,
    ),
    turn.parts.map((part) => partBlock(part, page)),
  );
}

function turnFacts(turn, call) {
  return h(
    "span",
    { class: "turn-facts faint small", testid: "turn-facts" },
    h("span", { title: "the model's answer took" }, h("i", { class: "dot tone-model" }), seconds(call.seconds - call.queued_s)),
    call.queued_s > 0.05 ? h("span", { title: "waited in the queue" }, h("i", { class: "dot tone-queued" }), seconds(call.queued_s)) : null,
    turn.tools_s === null ? null : h("span", { title: "its tools, and the harness, took" }, h("i", { class: "dot tone-tools" }), seconds(turn.tools_s)),
    h("span", { title: "tokens in, tokens out" }, `${short(call.input_tokens)} \u2192 ${short(call.output_tokens)} tok`),
    call.images_added ? h("span", {}, `${whole(call.images_added)} new pic${call.images_added === 1 ? "" : "s"}`) : null,
    call.finish_reason && !["stop", "tool_calls"].includes(call.finish_reason) ? chip(call.finish_reason, "warn") : null,
    call.notes.map((note) => chip(words(note), "faint")),
  );
}

function partBlock(part, page) {
  if (part.kind === "text") return clipped(part.text, page.more, { class: "text prose", testid: "said" });
  if (part.kind === "reasoning") return reasoning(part, page);
  if (part.kind === "message") return otherMessage(part, page);
  return tool(part, page);
}

function reasoning(part, page) {
  const isLong = part.text.length > LONG_REASONING;
  return h(
    "details",
    { class: "reasoning", testid: "reasoning", open: !isLong },
    h("summary", {}, "Reasoning", h("span", { class: "faint" }, ` ${short(part.text.length)} characters`)),
    clipped(part.text, page.more, { class: "text prose" }),
  );
}

function otherMessage(part, page) {
  return h(
    "div",
    { class: "other", testid: "message" },
    h("span", { class: "label" }, part.role),
    part.text.length ? clipped(part.text, page.more, { class: "text prose" }) : null,
    pictures(part.images, page),
  );
}

function tool(part, page) {
  const status = part.status === "completed" || !part.status ? null : chip(words(part.status), "warn");
  const input = part.command
    ? code(part.command, page.more, { class: "command", testid: "command" })
    : part.title && part.arguments.length < 400 && isPath(part)
      ? null
      : code(part.arguments, page.more, { class: "command", testid: "arguments" });
  return h(
    "div",
    { class: "tool", testid: "tool" },
    h("div", { class: "tool-head" }, h("span", { class: "tool-name" }, part.name || "tool"), h("span", { class: "cut", title: part.title }, part.title), h("span", { class: "spring" }), status),
    input,
    part.output === null ? h("p", { class: "faint small pad" }, part.status === "in_progress" ? "waiting for its output" : "no output") : part.output.length ? code(part.output, page.more, { class: "output", testid: "output" }) : null,
    pictures(part.images, page),
  );
}

/** A call whose only argument is the path that stands in its head already. */
function isPath(part) {
  return /^\s*\{\s*"[A-Za-z_]+"\s*:\s*"[^"]*"\s*\}\s*$/.test(part.arguments.text);
}

function pictures(images, page) {
  if (!images.length) return null;
  return h("div", { class: "thumbs" }, images.map((picture) => thumbnail(page.source, picture, () => page.open(picture))));
}
