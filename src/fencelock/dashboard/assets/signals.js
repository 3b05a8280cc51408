// Events, latches and barriers.

import { h, lockLink } from "./dom.js";
import { span } from "./format.js";
import { Table } from "./table.js";

const COLUMNS = [
  { key: "name", label: "Name", lead: true, sort: (row) => row.name,
    cell: (row) => ({ text: row.name, node: () => lockLink(row.name) }) },
  { key: "kind", label: "Kind", sort: (row) => row.kind, cell: (row) => row.kind },
  { key: "state", label: "State", sort: (row) => row.state,
    cell: (row) => ({ text: row.state, node: () => h("span", { class: "state" }, row.state) }) },
  { key: "waiting", label: "Waiting", number: true, sort: (row) => row.waiting,
    cell: (row) => (row.waiting ? String(row.waiting) : "") },
  { key: "until", label: "Forgotten in", number: true, sort: (row) => row.until, cell: (row, now) => span(row.until - now) },
];

export const signals = {
  title: () => "Signals",
  path: () => "api/signals",
  make(root) {
    const view = new Signals();
    root.append(...view.nodes);
    return view;
  },
};

class Signals {
  constructor() {
    this.table = new Table({
      columns: COLUMNS, key: (row) => row.name, label: "Events, latches and barriers",
      empty: "There is no event, latch or barrier.", order: { key: "waiting", way: -1 },
    });
    this.nodes = [
      h("h1", {}, "Signals"),
      h("p", { class: "sub" }, "Events, latches and barriers, as a search through the keys found them some seconds ago."),
      this.table.node,
    ];
  }

  update(data, now) {
    this.table.update(data.signals, now);
  }

  keys = { j: () => this.table.step(1), k: () => this.table.step(-1) };
}
