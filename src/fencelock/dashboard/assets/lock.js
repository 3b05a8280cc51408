// One lock: its holders, its line, its recent past, and the button that takes it away.

import { h, named, redraw, setText } from "./dom.js";
import { KINDS, LIVE_SECONDS, doing, instant, part, person, process, since, span, units } from "./format.js";
import { eventTable } from "./events.js";
import { words } from "./graph.js";
import { state } from "./locks.js";
import { tenures, waiting, waits } from "./plots.js";
import { Table } from "./table.js";

const WINDOW = 600;
const FIRST_OF_LINE = 30; // what is below it shall not be far away

const WHO = [
  { key: "process", label: "Process", lead: true, cell: (row) => process(row) },
  { key: "doing", label: "Thread or task", cell: (row) => doing(row) },
  { key: "label", label: "Label", cell: (row) => ({ text: row.label, node: () => named(row.label) }) },
];

export const lock = {
  title: (name) => name,
  path: (name) => `api/lock?name=${encodeURIComponent(name)}`,
  make(root, name, actions) {
    const view = new Lock(name, actions);
    root.append(...view.nodes);
    return view;
  },
};

class Lock {
  constructor(name, actions) {
    this.name = name;
    this.actions = actions;
    this.state = h("span");
    this.button = h("button", { type: "button", class: "danger", hidden: true, click: () => this.revoke(null) }, "Revoke …");
    this.facts = h("dl", { class: "facts" });
    this.holders = new Table({
      columns: [...WHO,
        { key: "part", label: "Has", cell: (row) => part(this.kind, row) },
        { key: "held", label: "Held for", number: true, cell: (row, now) => since(row.since, now) },
        { key: "lease", label: "Lease left", number: true, cell: (row, now) => lease(row, now) },
        { key: "revoke", label: "", cell: (row) => this.revokeCell(row) }],
      key: (row) => `${process(row)} ${row.unit} ${row.id} ${row.fence}`,
      empty: "No client holds it.", label: "Holders", footer: h("h2", {}, "Holders"),
    });
    this.line = new Table({
      columns: [{ key: "place", label: "#", number: true, cell: (row) => (row.inside ? "inside" : String(row.place)) }, ...WHO,
        { key: "part", label: "Wants", cell: (row) => part(this.kind, row) },
        { key: "waited", label: "Has waited", number: true, cell: (row, now) => since(row.since, now) }],
      key: (row) => `${process(row)} ${row.unit} ${row.id} ${row.since}`,
      empty: "No client waits for it.", label: "Line of waiters", first: FIRST_OF_LINE, footer: h("h2", {}, "Line"),
    });
    this.lineNote = h("p", { class: "empty", hidden: true });
    this.line.node.append(this.lineNote);
    this.tree = h("ul", { class: "tree" });
    this.waits = h("section", { class: "card", hidden: true }, h("h2", {}, "Who blocks whom"), this.tree);
    this.plots = h("div");
    this.events = eventTable("History", "The history has nothing about this lock.", false);
    this.nodes = [
      h("div", { class: "heading" }, h("div", {}, h("h1", {}, named(name)), this.state), this.button),
      h("div", { class: "two" }, h("section", { class: "card" }, h("h2", {}, "Now"), this.facts),
        h("section", { class: "card" }, h("h2", {}, "Last ten minutes"), this.plots)),
      this.holders.node, this.waits, this.line.node, this.events.node,
    ];
  }

  revokeCell(row) {
    if (!this.data.revoke || row.foreign) return "";
    return { text: "Revoke", node: () => h("button", {
      type: "button", class: "danger", "data-key": "revoke", click: () => this.revoke(row) }, "Revoke …") };
  }

  revoke(row) {
    const { status } = this.data;
    if (status) this.actions.revoke({ name: this.name, fence: status.fence, holders: status.holders, only: row });
  }

  update(data, now, age) {
    const status = { ...data.status, ...data.signal };
    this.data = { ...data, status };
    this.kind = status.kind;
    const chip = status.waiting ? [" ", h("span", { class: "state wait" }, `${units(status)} waiting`)] : [];
    const cycle = status.cycle ? [" ", h("a", { class: "state bad", href: "#/graph" }, "in a cycle")] : [];
    redraw(this.state, state(status), ...chip, ...cycle);
    this.button.hidden = !data.revoke || status.holding < 2;
    redraw(this.facts, facts(status, data, now));
    for (const table of [this.holders, this.line]) table.node.classList.toggle("plain-lock", status.kind === "lock");
    this.holders.update(status.holders, now);
    // Those that wait inside their client have no place on the server: their client stands for them.
    this.line.update([...status.waiters, ...status.inside.map((row) => ({ ...row, inside: true }))], now);
    for (const table of [this.holders, this.line]) table.node.hidden = data.signal !== null;
    this.waits.hidden = data.waits.edges.length === 0;
    redraw(this.tree, words(data.waits, now));
    const listed = [...status.waiters, ...status.inside].reduce((sum, row) => sum + 1 + row.others, 0);
    const hidden = status.waiting - listed;
    this.lineNote.hidden = hidden <= 0;
    setText(this.lineNote, `and ${hidden} more`);
    redraw(this.plots, plots(data, now, now - age));
    this.events.update(data.events, now);
  }

  keys = {
    Escape: () => { location.hash = "#/"; },
    r: () => { if (this.data?.revoke && this.data.status.held) this.revoke(null); },
  };
}

function lease(row, now) {
  return row.until === null ? "no end" : span(row.until - now);
}

function facts(status, data, now) {
  const who = status.holder;
  const rows = [
    ["kind", KINDS[status.kind] ?? status.kind],
    ["key", named(data.key)],
    ["holder", who ? named(person(who)) : status.foreign ? "a program that is not a fencelock client" : null],
    ["doing", who && !who.foreign ? doing(who) : null],
    ["held since", who?.since ? `${instant(who.since)}, for ${since(who.since, now)}` : null],
    ["lease left", status.until === null || data.signal ? null : leaseBar(status, now)],
    ["forgotten in", data.signal ? `${span(status.until - now)}, unless it is used` : null],
    ["fence", status.fence ? named(String(status.fence)) : null],
    ["permits", status.kind === "semaphore" ? `${status.taken} of ${status.limit} taken` : null],
    ["waiting", `${units(status)} ${status.waiting === 1 ? "thread or task" : "threads and tasks"}`],
  ];
  return rows.filter(([, value]) => value !== null && value !== "").flatMap(([label, value]) => [
    h("dt", {}, label), h("dd", {}, value)]);
}

function leaseBar(status, now) {
  const left = Math.max(0, status.until - now);
  const share = status.ttl ? Math.min(1, left / status.ttl) : 1;
  const bar = h("i", { class: share < 0.34 ? "low" : "" });
  bar.style.width = `${Math.round(share * 100)}%`;
  return [span(left), h("div", { class: "lease", "aria-hidden": "true" }, bar)];
}

function plots(data, now, seen) {
  const timed = data.events.filter((each) => each.at >= now - WINDOW && each.seconds > 0);
  const times = [data.tenures.map((each) => each.since), data.samples.map(([time]) => time), timed.map((each) => each.at - 5)];
  const from = Math.max(now - WINDOW, Math.min(now - 60, ...times.flat()));
  const late = now - seen > LIVE_SECONDS ? [[seen, now]] : [];
  const unseen = [...data.unseen, ...late];
  const held = data.tenures.map((each) => ({ ...each, until: each.until ?? seen }));
  const made = [];
  if (data.tenures.length) made.push(tenures(held, from, now, unseen), legend("Holders that this page has seen, second by second; in hatched times those that the history names"));
  if (data.samples.some(([, number]) => number)) made.push(waiting(data.samples, from, now, unseen, [...data.dark, ...late]), legend("Threads and tasks that wait; in hatched times the long waits that the history has"));
  if (timed.length) made.push(waits(timed, from, now), legend("How long clients waited, by the history; losses and deadlocks in red"));
  return made.length ? made : [legend("Nothing has happened since this page began to look.")];
}

function legend(text) {
  return h("p", { class: "legend" }, text);
}
