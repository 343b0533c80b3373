// Elements, made one by one. Nothing here, or anywhere in this page, turns text into markup.

import { visibleNodes, visibleText } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element. `props`: `class`, `testid`, `on` (listeners), `title`, and plain attributes; null and false leave one out.
 *  Children: nodes, strings (shown with hidden characters made visible), null, or lists of these. */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.setAttribute("class", value);
    else if (name === "testid") element.setAttribute("data-testid", value);
    else if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (name === "title" || name === "aria-label" || name === "alt") element.setAttribute(name, visibleText(value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) element.append(child);
    else element.append(...visibleNodes(child));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** As `replace`, for what is drawn again while somebody reads it: what was unfolded stays so. */
export function redraw(element, ...children) {
  const open = new Map([...element.querySelectorAll("details[data-testid]")].map((each) => [each.dataset.testid, each.open]));
  replace(element, ...children);
  for (const each of element.querySelectorAll("details[data-testid]")) {
    if (open.has(each.dataset.testid)) each.open = open.get(each.dataset.testid);
  }
}

/** CSS custom properties and widths go through the object model: the policy forbids style attributes. */
export function styled(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
  return element;
}

export function button(label, act, props) {
  return h("button", { type: "button", ...props, on: { click: act } }, label);
}
