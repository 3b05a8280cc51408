// Who blocks whom: a drawing, and the same as a tree of text, which every reader can follow.

import { cut, h, lockLink, named, redraw, svg } from "./dom.js";
import { count, doing, person, process, since } from "./format.js";
import { HIGH, WIDE, layout } from "./layout.js";

const MARGIN = 12;

export const graph = {
  title: () => "Who blocks whom",
  path: () => "api/graph",
  make(root) {
    const view = new Graph();
    root.append(...view.nodes);
    return view;
  },
};

class Graph {
  constructor() {
    this.warning = h("p", { class: "trouble card", role: "status", hidden: true });
    this.open = new Set(); // the boxes of several waiters that show each of them
    this.drawing = h("section", { class: "card graph", "aria-label": "Drawing of who blocks whom" });
    this.drawing.addEventListener("click", (event) => this.toggle(event.target.closest?.("[data-box]")));
    this.drawing.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") this.toggle(event.target.closest?.("[data-box]"), event);
    });
    this.tree = h("ul", { class: "tree" });
    this.left = h("p", { class: "soft" });
    this.nodes = [
      h("h1", {}, "Who blocks whom"),
      h("p", { class: "sub" }, "An arrow leads from a client that waits to the holder of the lock that it waits for."),
      this.warning, this.drawing,
      h("section", { class: "card" }, h("h2", {}, "The same in words"), this.tree, this.left),
    ];
  }

  // Opens a box of several waiters, or closes it.
  toggle(box, event) {
    if (!box) return;
    event?.preventDefault();
    const key = box.getAttribute("data-box");
    if (!this.open.delete(key)) this.open.add(key);
    this.update(this.data, this.now);
  }

  update(data, now) {
    [this.data, this.now] = [data, now];
    const members = data.nodes.filter((node) => node.cycle);
    this.warning.hidden = members.length === 0;
    redraw(this.warning, members.length ? warning(data, members) : "");
    const shown = opened(data, this.open);
    const drawn = JSON.stringify([shown.nodes.map(({ since: _, ...rest }) => rest), shown.edges]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      redraw(this.drawing, data.nodes.length ? drawing(shown) : h("p", { class: "empty" }, "No client waits for another."));
    }
    redraw(this.tree, words(data, now));
    redraw(this.left, data.left_out ? `${count(data.left_out, "holder")} that block fewer are left out.` : "");
  }

  keys = {};
}

function warning(data, members) {
  const names = [...new Set(data.edges.filter((edge) => edge.cycle).map((edge) => edge.name))];
  return h("span", {}, `${count(members.length, "client")} wait for each other in a cycle, for `,
    ...names.flatMap((name, place) => [place ? ", " : "", lockLink(name)]), ".");
}

// A box of several waiters, by what stays the same from look to look.
const keyOf = (node) => `${node.waits} ${node.client ? process(node.client) : ""}`;

// Returns the data with a box for each waiter in place of the boxes that are open.
function opened(data, open) {
  const nodes = [];
  const edges = [...data.edges];
  let id = data.nodes.length;
  for (const node of data.nodes) {
    nodes.push(node);
    if (!node.crowd || !open.has(keyOf(node))) continue;
    nodes[nodes.length - 1] = { ...node, open: true };
    for (const member of node.members) {
      nodes.push({ ...member, id: id, crowd: 0, waits: node.waits, all: 0, cycle: false });
      edges.push({ from: id++, to: node.id, name: node.waits, since: member.since, cycle: false, inside: true });
    }
  }
  return { nodes, edges };
}

// -- the drawing ---------------------------------------------------------------------------------

function drawing(data) {
  const { places, width, height } = layout(data.nodes, data.edges);
  const place = svg("svg", {
    width: width + 2 * MARGIN, height: height + 2 * MARGIN, viewBox: `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`,
    role: "img", "aria-label": "Clients as boxes, waits as arrows",
  });
  place.append(svg("defs", {}, tip("tip"), tip("tip-cycle", " cycle")));
  const labels = [];
  for (const edge of data.edges) {
    const { path, label } = arrow(edge, places);
    place.append(path);
    if (!edge.inside) labels.push(label);
  }
  for (const node of data.nodes) place.append(box(node, places.get(node.id)));
  place.append(...labels);
  return place;
}

function tip(id, more = "") {
  return svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" },
    svg("path", { class: `tip${more}`, d: "M0 0L8 4L0 8Z" }));
}

function arrow(edge, places) {
  const from = places.get(edge.from);
  const to = places.get(edge.to);
  const { path, middle } = edge.cycle ? arc(from, to) : from.x > to.x + WIDE ? curve(from, to) : straight(from, to);
  const more = edge.cycle ? " cycle" : "";
  const text = cut(edge.name, 20);
  const wide = [...text].length * 6.9 + 12;
  const label = svg("a", { href: `#/lock/${encodeURIComponent(edge.name)}`, "data-key": `wire ${edge.from} ${edge.name}` },
    svg("rect", { class: "tag", x: middle.x - wide / 2, y: middle.y - 10, width: wide, height: 20, rx: 6 }),
    svg("text", { class: `onwire${more}`, x: middle.x, y: middle.y + 4, "text-anchor": "middle" }, text),
    svg("title", {}, edge.name));
  const end = edge.cycle ? "tip-cycle" : "tip";
  return { path: svg("path", { class: `arrow${more}`, d: path, "marker-end": `url(#${end})` }), label };
}

// From the left side of the waiter to the right side of the holder.
function curve(from, to) {
  const a = { x: from.x, y: from.y + HIGH / 2 };
  const b = { x: to.x + WIDE, y: to.y + HIGH / 2 };
  const bend = Math.max(40, Math.abs(a.x - b.x) / 2);
  const path = `M${a.x} ${a.y}C${a.x - bend} ${a.y} ${b.x + bend} ${b.y} ${b.x + 2} ${b.y}`;
  return { path, middle: { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 } };
}

// From border to border, where the waiter does not stand in a column to the right.
function straight(from, to) {
  const a = { x: from.x + WIDE / 2, y: from.y + HIGH / 2 };
  const b = { x: to.x + WIDE / 2, y: to.y + HIGH / 2 };
  const start = border(a, b);
  const end = border(b, a);
  return { path: `M${start.x} ${start.y}L${end.x} ${end.y}`, middle: { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 } };
}

// Around the circle: bent outwards, from border to border.
function arc(from, to) {
  const a = { x: from.x + WIDE / 2, y: from.y + HIGH / 2 };
  const b = { x: to.x + WIDE / 2, y: to.y + HIGH / 2 };
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const bend = { x: (-(b.y - a.y) / length) * 62, y: ((b.x - a.x) / length) * 62 };
  const control = { x: (a.x + b.x) / 2 - bend.x, y: (a.y + b.y) / 2 - bend.y };
  const start = border(a, control);
  const end = border(b, control);
  const middle = { x: (start.x + 2 * control.x + end.x) / 4, y: (start.y + 2 * control.y + end.y) / 4 };
  return { path: `M${start.x} ${start.y}Q${control.x} ${control.y} ${end.x} ${end.y}`, middle };
}

function border(center, towards) {
  const dx = towards.x - center.x;
  const dy = towards.y - center.y;
  const scale = Math.min((WIDE / 2 + 3) / Math.abs(dx || 1e-9), (HIGH / 2 + 3) / Math.abs(dy || 1e-9));
  return { x: center.x + dx * scale, y: center.y + dy * scale };
}

function box(node, { x, y }) {
  const kind = node.cycle ? "cycle" : node.crowd ? "crowd" : node.waits ? "" : "root";
  const [first, second] = node.crowd
    ? [`${node.open ? "▾" : "▸"} ${node.crowd} waiters`, node.client ? `of ${person(node.client)}` : `for ${node.waits}`]
    : [person(node), node.foreign ? "holds it" : `${doing(node)}${node.all ? ` · blocks ${node.all}` : ""}`];
  const button = node.crowd ? { "data-box": keyOf(node), role: "button", tabindex: 0, "aria-expanded": String(Boolean(node.open)) } : {};
  return svg("g", { class: `node ${kind}`, transform: `translate(${x} ${y})`, ...button },
    svg("rect", { class: "box", width: WIDE, height: HIGH, rx: 9 }),
    svg("text", { x: 12, y: 20 }, cut(first, 26)),
    svg("text", { class: "small", x: 12, y: 37 }, cut(second, 31)),
    svg("title", {}, `${first}\n${second}`));
}

// -- the tree ------------------------------------------------------------------------------------

export function words(data, now) {
  const nodes = new Map(data.nodes.map((node) => [node.id, node]));
  const behind = new Map(data.nodes.map((node) => [node.id, []]));
  const waits = new Set(data.edges.map((edge) => edge.from));
  for (const edge of data.edges) behind.get(edge.to).push(edge);
  const told = new Set();
  const tell = (id, edge) => {
    const again = told.has(id);
    told.add(id);
    const below = again ? [] : behind.get(id).map((each) => tell(each.from, each));
    return h("li", {}, sentence(nodes.get(id), edge, now, again), below.length ? h("ul", {}, below) : null);
  };
  const roots = data.nodes.filter((node) => !waits.has(node.id)).map((node) => tell(node.id, null));
  const ring = data.nodes.filter((node) => node.cycle && !told.has(node.id));
  const circles = ring.map((node) => (told.has(node.id) ? null : tell(node.id, null)));
  return [...circles.filter(Boolean), ...roots];
}

function sentence(node, edge, now, again) {
  const of = node.client ? ` of ${person(node.client)}` : "";
  const who = node.crowd ? h("span", {}, `${node.crowd} waiters${of}`) : named(person(node));
  const mark = node.cycle ? h("span", { class: "state bad" }, "in a cycle") : null;
  const unit = node.crowd || node.foreign ? "" : ` (${doing(node)})`;
  if (!edge) return h("span", {}, who, unit, node.all ? ` blocks ${count(node.all, "waiter")} ` : " ", mark);
  const long = ` ${node.crowd ? "wait" : "waits"} for `;
  const time = edge.since ? ` since ${since(edge.since, now)}` : "";
  return h("span", {}, who, unit, long, lockLink(edge.name), time, " ", again ? "(as above) " : "", mark);
}
