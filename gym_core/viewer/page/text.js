// Text from strangers: what shows nothing, turns the direction of text or drives a terminal becomes a visible mark.

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

// A text full of marks is shown without an element for each.
const MAX_MARK_ELEMENTS = 400;

export function markOf(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return "\u27e8U+" + code.toString(16).toUpperCase().padStart(4, "0") + "\u27e9";
}

function withoutLineEnds(text) {
  return text.replace(/\r\n/g, "\n");
}

/** The text with marks in it, for places that take no elements (titles, attributes). */
export function visibleText(text) {
  return withoutLineEnds(String(text)).replace(HIDDEN, markOf);
}

/** Nodes that show the text, each mark in an element of its own. */
export function visibleNodes(text) {
  const plain = withoutLineEnds(String(text));
  const marks = plain.match(HIDDEN);
  if (marks === null) return [document.createTextNode(plain)];
  if (marks.length > MAX_MARK_ELEMENTS) return [document.createTextNode(plain.replace(HIDDEN, markOf))];
  const nodes = [];
  let from = 0;
  for (const match of plain.matchAll(HIDDEN)) {
    if (match.index > from) nodes.push(document.createTextNode(plain.slice(from, match.index)));
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.textContent = markOf(match[0]);
    nodes.push(mark);
    from = match.index + match[0].length;
  }
  if (from < plain.length) nodes.push(document.createTextNode(plain.slice(from)));
  return nodes;
}
