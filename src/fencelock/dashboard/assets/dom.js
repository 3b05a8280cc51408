// Elements out of data. Text only ever becomes text nodes and attribute values, never markup, and
// what could hide or reorder text on a screen is written out: other users chose names and labels.

const NAME_SHOWN = 64; // characters of a name in a table
const TAIL = 12; // of them, those that are always shown
const SVG = "http://www.w3.org/2000/svg";
const HIDING = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

export function visible(text) {
  return String(text).replace(HIDING, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

// Leaves out the middle of a text that is too long: names differ at either end.
export function cut(text, length) {
  const whole = [...visible(text)];
  if (whole.length <= length) return whole.join("");
  const head = Math.floor((length - 1) / 2);
  return `${whole.slice(0, head).join("")}…${whole.slice(head + 1 - length).join("")}`;
}

export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

// A name or label that somebody chose: set apart, so that its direction changes nothing around it.
export function named(text, properties = {}) {
  return h("bdi", { class: "name", ...properties }, text);
}

export function setText(node, text) {
  const shown = visible(text);
  if (node.textContent !== shown) node.textContent = shown;
}

// Draws anew what is in a place, and gives the focus back to the element with the same key.
export function redraw(place, ...children) {
  const active = document.activeElement;
  const key = place.contains(active) ? active.getAttribute("data-key") : null;
  place.replaceChildren(...children.flat().filter((child) => child !== null));
  if (key === null) return;
  for (const each of place.querySelectorAll("[data-key]")) {
    if (each.getAttribute("data-key") === key) return each.focus({ preventScroll: true });
  }
}

export function lockLink(name, properties = {}) {
  const href = `#/lock/${encodeURIComponent(name)}`;
  // Where there is little room, the first part is cut: names that differ at their end differ there.
  const shown = [...cut(name, NAME_SHOWN)];
  const parts = [h("span", { class: "head" }, shown.slice(0, -TAIL).join("")), h("span", { class: "tail" }, shown.slice(-TAIL).join(""))];
  return h("a", { href, class: "name", title: name, "aria-label": visible(name), "data-key": `lock ${name}`, ...properties }, h("bdi", {}, parts));
}
