// Text from strangers: what shows nothing, turns the direction of text or drives a terminal becomes a visible mark.

// All of Unicode's categories C, Zl and Zp but for the line end and the tab, and letters that are drawn as nothing.
const HIDDEN = /(?![\n\t])[\p{C}\p{Zl}\p{Zp}]|[\u115f\u1160\u3164\uffa0]/gu;

const NAMES = { 0: "NUL", 7: "BEL", 8: "BS", 13: "CR", 27: "ESC", 127: "DEL" };

// A text full of marks is shown without an element for each.
const MAX_MARK_ELEMENTS = 400;

export function markOf(character) {
  const code = character.codePointAt(0);
  const name = NAMES[code] || "U+" + code.toString(16).toUpperCase().padStart(4, "0");
  return "\u27e8" + name + "\u27e9";
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
