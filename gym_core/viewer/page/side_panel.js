// Beside the conversation: the puzzle, the grade, where time and tokens went, and whether the capture is whole.

import { stackedBar } from "./charts.js";
import { chip, clipped, code, dot, facts, rewardTone, section, thumbnail } from "./blocks.js";
import { button, h } from "./dom.js";
import { reward, seconds, whole, words } from "./format.js";

const TIME_NAMES = { seed: "sandbox made", open: "agent opened", model: "model", queued: "waiting for the model", tools: "shell and harness", verify: "grading", other: "other" };

export function puzzlePanel(view, page) {
  const tasks = view.prompts.filter((prompt) => prompt.role !== "system" && prompt.role !== "developer" && prompt.role !== "instructions");
  const rest = view.prompts.filter((prompt) => !tasks.includes(prompt));
  return h(
    "section",
    { class: "block puzzle", testid: "puzzle" },
    tasks.map((prompt) => [prompt.images.map((picture) => thumbnail(page.source, picture, () => page.open(picture))), prompt.text.length ? clipped(prompt.text, page.more, { class: "text prose question" }) : null]),
    view.pictures.length > 1 ? button(`All ${whole(view.pictures.length)} pictures`, () => page.open(null), { class: "quiet", testid: "all-pictures" }) : null,
    rest.map((prompt) => h("details", { class: "small" }, h("summary", {}, words(prompt.role)), clipped(prompt.text, page.more, { class: "text code" }))),
  );
}

export function gradePanel(view, page) {
  const { grade, row } = view;
  if (!grade) return section("Grade", h("p", { class: "faint" }, "Not graded yet: it is still being played."));
  return h(
    "section",
    { class: "block", testid: "grade" },
    h(
      "h3",
      {},
      "Grade",
      h("span", { class: "spring" }),
      chip(grade.reward === null ? "masked" : `reward ${reward(grade.reward)}`, rewardTone(row), { testid: "reward" }),
    ),
    grade.failure
      ? h("div", { class: `failure ${grade.reward === null ? "masked" : "wrong"}`, testid: "failure" }, h("b", {}, words(grade.failure)), grade.failure_stage ? h("span", { class: "faint" }, ` in ${grade.failure_stage}`) : null, grade.failure_reason ? h("p", { class: "text" }, grade.failure_reason) : null)
      : null,
    h(
      "div",
      { class: "answers" },
      answer("gold", grade.gold, "gold", page),
      answer("answer", grade.extracted, rewardTone(row), page),
    ),
    grade.options.length ? h("ol", { class: "options", type: "A" }, grade.options.map((option) => h("li", {}, clipped(option, page.more)))) : null,
    grade.verdict || grade.reason
      ? h(
          "div",
          { class: "judge", testid: "judge" },
          h("div", {}, h("span", { class: "label" }, "judge"), " ", grade.judge, grade.verdict ? [" ", chip(words(grade.verdict), rewardTone(row), { testid: "verdict" })] : null),
          grade.reason ? clipped(grade.reason, page.more, { class: "text small" }) : null,
          grade.raw_reply ? h("details", { testid: "raw-reply" }, h("summary", {}, "Raw reply"), code(grade.raw_reply, page.more)) : null,
        )
      : null,
    Object.keys(grade.components).length ? facts(Object.entries(grade.components).map(([name, value]) => [words(name), reward(value)])) : null,
    Object.keys(grade.shaping).length ? shapingTerms(grade.shaping) : null,
    grade.columns.length ? h("details", { testid: "columns" }, h("summary", {}, `All columns: ${grade.columns.length} more`), facts(grade.columns.map((column) => [column.name, clipped(column.value, page.more)]), { class: "facts mono" })) : null,
  );
}

function shapingTerms(shaping) {
  const terms = Object.entries(shaping).map(([name, value]) => [words(name), `${value < 0 ? "−" : "+"}${reward(Math.abs(value))}`]);
  return h("div", { testid: "shaping", title: "What a trainer's reward has beside this one; no metric counts it." }, h("span", { class: "label" }, "for trainers"), facts(terms));
}

function answer(name, clip, tone, page) {
  const shown = clip ? clipped(clip, page.more, { class: "text answer-text" }) : h("span", { class: "faint" }, "none");
  return h("div", { class: `answer ${tone}`, testid: `answer-${name}` }, h("span", { class: "label" }, name === "gold" ? "gold" : "extracted answer"), shown);
}

export function timePanel(view) {
  if (!view.times.length) return null;
  const all = view.times.reduce((sum, span) => sum + span.seconds, 0);
  const parts = view.times.map((span) => ({ value: span.seconds, tone: span.name, title: `${TIME_NAMES[span.name]}: ${seconds(span.seconds)}` }));
  return h(
    "section",
    { class: "block", testid: "time" },
    h("h3", {}, "Time", h("span", { class: "spring" }), h("span", { class: "number" }, seconds(all))),
    stackedBar(parts, { testid: "time-bar" }),
    h(
      "div",
      { class: "legend" },
      view.times.filter((span) => span.seconds / all > 0.002).map((span) => h("div", {}, dot(span.name), h("span", {}, TIME_NAMES[span.name]), h("span", { class: "number" }, seconds(span.seconds)))),
    ),
  );
}

export function tokenPanel(view) {
  const { row, calls } = view;
  const peak = calls.reduce((most, call) => Math.max(most, call.input_tokens + call.output_tokens), 0);
  return h(
    "section",
    { class: "block", testid: "tokens" },
    h("h3", {}, "Tokens"),
    facts([
      ["in, all calls", whole(row.input_tokens)],
      ["out", whole(row.output_tokens)],
      ["longest call", peak ? whole(peak) : ""],
      ["pictures received", whole(row.images)],
      ["tool calls", whole(row.tool_calls)],
    ]),
  );
}

export function healthPanel(view, page) {
  const { health } = view;
  const sequences = health.sequences;
  const isWhole = health.complete && !health.problem;
  const branches = sequences ? Object.entries(sequences.branches).map(([label, count]) => (count > 1 ? `${words(label)} \u00d7${count}` : words(label))) : [];
  const drifts = sequences ? Object.entries(sequences.drifts) : [];
  return h(
    "section",
    { class: "block", testid: "health" },
    h("h3", {}, "Capture", h("span", { class: "spring" }), chip(isWhole ? "whole" : view.state === "running" ? "so far" : "look", isWhole ? "right" : "warn")),
    health.problem ? h("p", { class: "warn" }, health.problem) : null,
    health.last_failure ? h("p", { class: "warn" }, health.last_failure) : null,
    facts([
      ["calls", `${whole(health.calls)}${health.failed_calls ? `, ${whole(health.failed_calls)} failed` : ""}`],
      ["token ids", health.has_token_ids ? "all" : "not given"],
      ["log-probabilities", health.has_logprobs ? "all" : "not given"],
      ["branches", branches.join(", ")],
      ["sampled tokens", sequences && sequences.sampled_tokens ? whole(sequences.sampled_tokens) : ""],
      ["drift", drifts.map(([reason, count]) => `${words(reason)} \u00d7${count}`).join(", ") || (sequences && sequences.calls ? "none" : "")],
      ["gaps", Object.entries(health.gaps).map(([gap, count]) => `${words(gap)} \u00d7${count}`).join(", ")],
      ["notes", [...Object.entries(health.notes).map(([note, count]) => `${words(note)} \u00d7${count}`), ...view.agent_notes.map(words)].join(", ")],
    ]),
    view.calls.length
      ? h(
          "details",
          { testid: "calls" },
          h("summary", {}, `All ${whole(view.calls.length)} model calls`),
          h(
            "div",
            { class: "call-list" },
            view.calls.map((call) =>
              h(
                page.hasCalls ? "button" : "div",
                { type: page.hasCalls ? "button" : null, class: "call-row", on: page.hasCalls ? { click: () => page.showCall(call.index) } : {} },
                h("span", { class: "number faint" }, whole(call.index + 1)),
                h("span", {}, call.outcome === "answered" ? words(call.branch || "answered") : call.outcome),
                h("span", { class: "cut faint" }, call.failure || call.tools.join(", ") || call.finish_reason),
                h("span", { class: "number" }, `${whole(call.input_tokens)} \u2192 ${whole(call.output_tokens)}`),
                h("span", { class: "number" }, seconds(call.seconds)),
              ),
            ),
          ),
        )
      : null,
  );
}

export function originPanel(view) {
  const { row, sandbox } = view;
  const versions = Object.entries(view.agent_versions).map(([name, version]) => `${name} ${version}`);
  return h(
    "details",
    { class: "block", testid: "origin" },
    h("summary", {}, "Sandbox and versions"),
    facts([
      ["task", row.task],
      ["rollout", row.id],
      ["episodes", whole(row.attempts)],
      ["agent", versions.join(", ")],
      ["sandbox", sandbox ? `${sandbox.provider}, ${sandbox.mechanism}` : ""],
      ["network", sandbox ? words(sandbox.network) : ""],
      ["memory", sandbox ? words(sandbox.memory) : ""],
      ["user", sandbox ? words(sandbox.user) : ""],
    ]),
    view.attempts.map((attempt) => h("p", { class: "warn small" }, `attempt ${attempt.attempt + 1} broke in ${attempt.stage}: ${words(attempt.kind)}: ${attempt.reason}`)),
  );
}
