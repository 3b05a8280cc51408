// Which processes others wait for: now, and over the last hour by the history.

import { h, lockLink, named } from "./dom.js";
import { count, doing, person, process, span } from "./format.js";
import { Table } from "./table.js";

const SHOWN = 3;

function meter(seconds, most) {
  const bar = h("i");
  bar.style.width = `${Math.max(2, (100 * seconds) / most)}%`;
  return h("span", { class: "meter", "aria-hidden": "true" }, bar);
}

function held(row) {
  const more = row.holds.length > SHOWN ? `and ${row.holds.length - SHOWN} more` : "";
  const links = row.holds.slice(0, SHOWN).flatMap((name, place) => [place ? ", " : "", lockLink(name)]);
  return { text: `${row.holds.join(", ")} ${more}`, node: () => h("span", {}, ...links, more ? ` ${more}` : "") };
}

export const blockers = {
  title: () => "Top blockers",
  path: () => "api/blockers",
  make(root) {
    const view = new Blockers();
    root.append(...view.nodes);
    return view;
  },
};

class Blockers {
  constructor() {
    this.most = { now: 1, past: 1, locks: 1 };
    const cost = (part) => ({ key: "cost", label: "", cell: (row) => ({
      text: `${Math.round((100 * row.seconds) / this.most[part])}`, node: () => meter(row.seconds, this.most[part]) }) });
    const seconds = (label) => ({ key: "seconds", label, number: true, sort: (row) => row.seconds, cell: (row) => span(row.seconds) });
    this.now = new Table({
      columns: [
        { key: "who", label: "Process", lead: true, sort: (row) => person(row),
          cell: (row) => ({ text: person(row), node: () => named(person(row)) }) },
        { key: "doing", label: "Thread or task", cell: (row) => (row.foreign ? process(row) : doing(row)) },
        { key: "holds", label: "Holds", cell: held },
        { key: "direct", label: "Waiters", number: true, sort: (row) => row.direct, cell: (row) => String(row.direct) },
        { key: "all", label: "With those behind them", number: true, sort: (row) => row.all, cell: (row) => String(row.all) },
        seconds("They have waited"), cost("now"),
      ],
      key: (row) => `${person(row)} ${row.unit} ${row.id} ${row.foreign ? row.holds[0] : ""}`,
      empty: "No client waits for another.", label: "Top blockers now", order: { key: "seconds", way: -1 },
      mark: (row) => (row.cycle ? "bad" : ""), footer: h("h2", {}, "Now"),
    });
    this.past = new Table({
      columns: [
        { key: "who", label: "Process", lead: true, sort: (row) => person(row),
          cell: (row) => ({ text: person(row), node: () => named(person(row)) }) },
        { key: "names", label: "Held", cell: (row) => held({ holds: row.names }) },
        seconds("Others waited for it"), cost("past"),
      ],
      key: (row) => person(row),
      empty: "This page has seen no waits yet.", label: "Top blockers of the last hour",
      order: { key: "seconds", way: -1 }, footer: h("h2", {}, "Last hour, as far as this page looked"),
    });
    this.locks = new Table({
      columns: [
        { key: "name", label: "Lock", lead: true, sort: (row) => row.name,
          cell: (row) => ({ text: row.name, node: () => lockLink(row.name) }) },
        { key: "times", label: "Long waits", number: true, sort: (row) => row.times, cell: (row) => String(row.times) },
        { key: "longest", label: "The longest", number: true, sort: (row) => row.longest, cell: (row) => span(row.longest) },
        seconds("All together"), cost("locks"),
      ],
      key: (row) => row.name,
      empty: "The history has no waits of the last hour.", label: "Locks most waited for in the last hour",
      order: { key: "seconds", way: -1 }, footer: h("h2", {}, "Most waited for in the last hour, by the history"),
    });
    this.sub = h("p", { class: "sub" });
    this.nodes = [h("h1", {}, "Top blockers"), this.sub, this.now.node, this.past.node, this.locks.node];
  }

  update(data, now) {
    const passed = Math.max(0, now - data.at);
    const current = data.now.map((row) => ({ ...row, seconds: row.seconds + passed * row.all }));
    const most = (rows) => rows.reduce((found, row) => Math.max(found, row.seconds), 1);
    this.most = { now: most(current), past: most(data.past), locks: most(data.locks) };
    this.sub.textContent = `${count(current.length, "holder")} that other clients wait for.`;
    this.now.update(current, now);
    this.past.update(data.past, now);
    this.locks.update(data.locks, now);
  }

  keys = {};
}
