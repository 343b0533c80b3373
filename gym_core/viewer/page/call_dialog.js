// A model call as it was sent: every message, every picture, in order.

import { chip, clipped, code, facts, thumbnail } from "./blocks.js";
import { button, h } from "./dom.js";
import { seconds, whole, words } from "./format.js";
import { closeOverlay, openOverlay, shade } from "./keys.js";

export function openCall(call, page) {
  const { facts: f } = call;
  const card = h(
    "div",
    { class: "dialog call", role: "dialog", "aria-modal": "true", "aria-label": `Call ${f.index + 1}`, testid: "call" },
    h(
      "header",
      {},
      h("h2", {}, `Call ${f.index + 1} as it was sent`),
      f.branch ? chip(f.branch, "") : null,
      f.outcome === "answered" ? null : chip(f.outcome, "warn"),
      h("span", { class: "spring" }),
      button("Close", closeOverlay, { class: "quiet", "data-focus": true, testid: "call-close" }),
    ),
    h(
      "div",
      { class: "dialog-body" },
      facts([
        ["call id", f.call_id],
        ["time", `${seconds(f.seconds)}${f.first_byte_s === null ? "" : `, first byte after ${seconds(f.first_byte_s)}`}`],
        ["tokens", `${whole(f.input_tokens)} in, ${whole(f.output_tokens)} out`],
        ["finish reason", f.finish_reason],
        ["policy version", f.policy_version === null ? "" : String(f.policy_version)],
        ["failure", f.failure],
        ["notes", f.notes.map(words).join(", ")],
        ["capture lacks", f.gaps.map(words).join(", ")],
      ]),
      call.messages.map((message) => messageBlock(message, page)),
      call.answer ? messageBlock({ ...call.answer, role: "answer" }, page) : null,
      h("details", {}, h("summary", {}, "Tools offered"), code(call.tools, page.more)),
      h("details", {}, h("summary", {}, "Sampling"), code(call.sampling, page.more)),
    ),
  );
  openOverlay(shade(card), {});
}

function messageBlock(message, page) {
  const body = [
    message.text.length ? clipped(message.text, page.more, { class: "text prose" }) : null,
    message.images.length ? h("div", { class: "thumbs" }, message.images.map((picture) => thumbnail(page.source, picture, () => page.open(picture)))) : null,
    message.tool_calls.map((tool) => h("div", { class: "tool" }, h("div", { class: "tool-head" }, h("span", { class: "tool-name" }, tool.name)), code(tool.command || tool.arguments, page.more, { class: "command" }))),
  ];
  const isLong = message.role === "system" || message.role === "developer";
  return h("details", { class: `sent ${message.role}`, open: !isLong, testid: "sent-message" }, h("summary", {}, message.role || "message"), body);
}
