// What the history has: waits, losses, revocations, deadlocks.

import { h, lockLink, named } from "./dom.js";
import { instant, person, span } from "./format.js";
import { Table } from "./table.js";

const TONES = { wait: "wait", lost: "bad", revoked: "bad", deadlock: "bad" };

const AT = { key: "at", label: "When", sort: (row) => row.at, cell: (row) => instant(row.at) };
const NAME = { key: "name", label: "Lock", lead: true, sort: (row) => row.name,
  cell: (row) => ({ text: row.name, node: () => lockLink(row.name) }) };
const REST = [
  { key: "kind", label: "What", sort: (row) => row.kind,
    cell: (row) => ({ text: row.kind, node: () => h("span", { class: `state ${TONES[row.kind] ?? ""}` }, row.kind) }) },
  { key: "who", label: "Client", sort: (row) => person(row),
    cell: (row) => ({ text: person(row), node: () => named(person(row)) }) },
  { key: "seconds", label: "Seconds", number: true, sort: (row) => row.seconds,
    cell: (row) => (row.seconds ? span(row.seconds) : "") },
  { key: "more", label: "Why, or behind which client", cell: (row) => ({ text: row.why, node: () => h("bdi", {}, row.why) }) },
];

export function eventTable(title, empty, withName) {
  return new Table({
    columns: withName ? [NAME, ...REST.slice(0, 1), AT, ...REST.slice(1)] : [{ ...AT, lead: true }, ...REST],
    key: (row) => row.id,
    empty,
    label: title,
    order: { key: "at", way: -1 },
    footer: withName ? null : h("h2", {}, title),
  });
}

export const events = {
  title: () => "Events",
  path: () => "api/events",
  make(root) {
    const view = new Events();
    root.append(...view.nodes);
    return view;
  },
};

const CHIPS = [["all", "All"], ["lost", "Losses"], ["deadlock", "Deadlocks"], ["revoked", "Revocations"], ["wait", "Waits"]];

class Events {
  constructor() {
    this.chosen = "all";
    this.table = eventTable("Events", "", true);
    this.chips = CHIPS.map(([key, label]) =>
      h("button", { type: "button", "aria-pressed": String(key === "all"), click: () => this.choose(key) }, label));
    this.nodes = [
      h("h1", {}, "Events"),
      h("p", { class: "sub" }, "Losses, deadlocks, revocations and long waits, from the history that clients with ",
        h("code", {}, "history=True"), " keep on the server."),
      h("div", { class: "bar" }, h("div", { class: "chips" }, this.chips)),
      this.table.node,
    ];
  }

  choose(key) {
    this.chosen = key;
    CHIPS.forEach(([each], place) => this.chips[place].setAttribute("aria-pressed", String(each === key)));
    if (this.data) this.update(this.data, this.now);
  }

  update(data, now) {
    this.data = data;
    this.now = now;
    const rows = data.events.filter((each) => this.chosen === "all" || each.kind === this.chosen);
    this.table.nothing.textContent = "The history has no such event.";
    this.table.update(rows, now);
  }

  keys = { j: () => this.table.step(1), k: () => this.table.step(-1) };
}
