// All locks: the numbers at the top, the filter, the table.

import { h, lockLink, named, setText } from "./dom.js";
import { count, person, process, since, span, units } from "./format.js";
import { Table } from "./table.js";

export function state(row) {
  return h("span", { class: `state ${row.tone}` }, row.state);
}

const COLUMNS = [
  { key: "name", label: "Name", lead: true, sort: (row) => row.name,
    cell: (row) => ({ text: row.name, node: () => lockLink(row.name) }) },
  { key: "state", label: "State", sort: (row) => row.state,
    cell: (row) => ({ text: row.state, class: row.tone, node: () => state(row) }) },
  { key: "holder", label: "Holder", sort: (row) => process(row.holder), cell: holder },
  { key: "label", label: "Label", sort: (row) => row.holder?.label ?? "",
    cell: (row) => ({ text: row.holder?.label ?? "", node: () => named(row.holder?.label ?? "") }) },
  { key: "held", label: "Held for", number: true, sort: (row) => (row.holder?.since ? -row.holder.since : -Infinity),
    cell: (row, now) => since(row.holder?.since, now) },
  { key: "lease", label: "Lease left", number: true, sort: (row) => row.until ?? -Infinity,
    cell: (row, now) => (row.until === null ? "" : span(row.until - now)) },
  { key: "waiting", label: "Waiting", number: true, sort: (row) => row.waiting,
    cell: (row) => (row.waiting ? units(row) : "") },
  { key: "oldest", label: "Longest wait", number: true, sort: (row) => (row.oldest ? -row.oldest : -Infinity),
    cell: (row, now) => since(row.oldest, now) },
];

function holder(row) {
  const more = row.more > 0 ? ` +${row.more}` : "";
  return process(row.holder) + more;
}

const CHIPS = [
  ["all", "All", () => true],
  ["held", "Held", (row) => row.tone === "held"],
  ["waited", "Waited for", (row) => row.waiting > 0],
  ["cycle", "In a cycle", (row) => row.cycle],
];

export const locks = {
  title: () => "Locks",
  path: () => "api/board",
  make(root) {
    const view = new Locks();
    root.append(...view.nodes);
    return view;
  },
};

const MOST_WAITED_FOR = { key: "waiting", way: -1 };

// What is filtered and sorted stands in the address, so that a link shows the same.
class Locks {
  constructor() {
    const asked = new URLSearchParams(location.hash.split("?")[1] ?? "");
    const order = /^(-?)(\w+)$/.exec(asked.get("sort") ?? "");
    this.tiles = new Tiles();
    this.chosen = CHIPS.some(([key]) => key === asked.get("state")) ? asked.get("state") : "all";
    this.table = new Table({
      columns: COLUMNS,
      key: (row) => row.name,
      empty: "No lock is held or waited for.",
      label: "Locks",
      order: order && COLUMNS.some((each) => each.sort && each.key === order[2]) ? { key: order[2], way: order[1] ? -1 : 1 } : MOST_WAITED_FOR,
      reordered: () => this.note(),
      mark: (row) => (row.cycle ? "bad" : ""),
      sheet: "locks",
    });
    this.search = h("input", {
      type: "search", placeholder: "Filter by name, host or label  ( / )", "aria-label": "Filter the locks",
      value: asked.get("filter"), input: () => { this.note(); this.draw(); },
    });
    this.chips = CHIPS.map(([key, label]) =>
      h("button", { type: "button", "aria-pressed": String(key === this.chosen), click: () => this.choose(key) }, label));
    this.count = h("span", { class: "soft", role: "status" });
    const bar = h("div", { class: "bar" }, this.search, h("div", { class: "chips" }, this.chips), this.count);
    this.nodes = [this.tiles.node, bar, this.table.node];
  }

  choose(key) {
    this.chosen = key;
    CHIPS.forEach(([each], place) => this.chips[place].setAttribute("aria-pressed", String(each === key)));
    this.note();
    this.draw();
  }

  note() {
    const { key, way } = this.table.order;
    const usual = key === MOST_WAITED_FOR.key && way === MOST_WAITED_FOR.way;
    const told = new URLSearchParams();
    if (this.search.value) told.set("filter", this.search.value);
    if (this.chosen !== "all") told.set("state", this.chosen);
    if (!usual) told.set("sort", `${way < 0 ? "-" : ""}${key}`);
    history.replaceState(null, "", `#/${told.size ? `?${told}` : ""}`);
  }

  update(data, now) {
    this.data = data;
    this.now = now;
    this.tiles.update(data.totals, now);
    this.draw();
  }

  draw() {
    if (!this.data) return;
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = CHIPS.find(([key]) => key === this.chosen)[2];
    const rows = this.data.locks.filter((row) => fits(row) && words.every((word) => searched(row).includes(word)));
    const filtered = rows.length < this.data.locks.length;
    setText(this.table.nothing, filtered ? "No lock fits the filter." : this.table.empty);
    setText(this.count, filtered ? `${rows.length} of ${count(this.data.locks.length, "lock")}` : "");
    this.table.update(rows, this.now);
  }

  keys = {
    "/": () => this.search.focus(),
    j: () => this.table.step(1),
    k: () => this.table.step(-1),
    ArrowDown: () => this.table.step(1),
    ArrowUp: () => this.table.step(-1),
  };
}

const texts = new WeakMap();

function searched(row) {
  if (!texts.has(row)) texts.set(row, `${row.name} ${person(row.holder ?? { host: "", pid: "" })} ${row.kind}`.toLowerCase());
  return texts.get(row);
}

class Tiles {
  constructor() {
    this.held = tile("held");
    this.waiting = tile("waiting");
    this.longest = tile("longest wait");
    this.cycles = tile("in a cycle now", "#/graph");
    this.losses = tile("losses, last hour", "#/events");
    this.deadlocks = tile("deadlocks, last hour", "#/events");
    const all = [this.held, this.waiting, this.longest, this.cycles, this.losses, this.deadlocks];
    this.node = h("div", { class: "tiles" }, all.map((each) => each.node));
  }

  update(totals, now) {
    show(this.held, totals.held.toLocaleString("en"));
    show(this.waiting, units(totals));
    const { longest } = totals;
    show(this.longest, longest ? since(longest.since, now) : "–", longest?.name ?? "");
    this.longest.node.classList.toggle("warm", longest !== null && now - longest.since > 10);
    alarm(this.cycles, totals.cycle);
    alarm(this.losses, totals.losses);
    alarm(this.deadlocks, totals.deadlocks);
  }
}

function tile(label, href = null) {
  const number = h("b", {}, "–");
  const note = h("small", { hidden: true });
  const node = h(href ? "a" : "div", { class: "tile", href }, number, h("span", {}, label), note);
  return { node, number, note };
}

function show(each, text, note = "") {
  setText(each.number, text);
  setText(each.note, note);
  each.note.hidden = note === "";
}

function alarm(each, number) {
  show(each, number === null ? "–" : number.toLocaleString("en"));
  each.node.classList.toggle("alarm", number > 0);
}
