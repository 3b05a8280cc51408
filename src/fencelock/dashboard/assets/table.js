// A table whose rows stay the same elements while their contents change, so that neither the focus
// nor a selection is lost, and a refresh touches only the cells that differ.
//
// A column: {key, label, cell(row, now) → text or {text, class, node}, sort(row) → value, number,
// lead}. A cell with a node is made anew when its text differs.

import { h, setText, visible } from "./dom.js";

const STEP = 200;

export class Table {
  constructor({ columns, key, empty, label, order = null, mark = null, sheet = "", footer = null, first = STEP, reordered = () => {} }) {
    Object.assign(this, { columns, key, order, mark, empty, reordered });
    this.rows = new Map();
    this.limit = first;
    this.heads = new Map();
    const widths = h("colgroup", {}, columns.map((column) => h("col", { class: `c-${column.key}` })));
    const head = h("thead", {}, h("tr", {}, columns.map((column) => this.head(column))));
    this.body = h("tbody");
    this.nothing = h("p", { class: "empty" }, empty);
    this.more = h("button", { type: "button", click: () => this.grow() });
    this.table = h("table", { class: "stack", "aria-label": label }, widths, head, this.body);
    const below = h("p", { class: "empty" }, this.more);
    this.node = h("section", { class: `card sheet ${sheet}` }, footer, this.table, this.nothing, below);
    this.below = below;
    this.showOrder();
  }

  head(column) {
    const number = `c-${column.key}${column.number ? " number" : ""}`;
    if (!column.sort) return h("th", { scope: "col", class: number }, column.label);
    const button = h("button", { type: "button", class: "plain", click: () => this.sortBy(column) }, column.label);
    const head = h("th", { scope: "col", class: number }, button);
    this.heads.set(column.key, head);
    return head;
  }

  sortBy(column) {
    const same = this.order && this.order.key === column.key;
    const first = column.number ? -1 : 1;
    this.order = { key: column.key, way: same ? -this.order.way : first };
    this.showOrder();
    this.reordered();
    if (this.last) this.update(...this.last);
  }

  showOrder() {
    for (const [key, head] of this.heads) {
      const here = this.order && this.order.key === key;
      if (here) head.setAttribute("aria-sort", this.order.way > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
  }

  grow() {
    this.limit += STEP;
    this.update(...this.last);
  }

  sorted(rows) {
    const column = this.order && this.columns.find((each) => each.key === this.order.key);
    if (!column) return rows;
    const way = this.order.way;
    const valued = rows.map((row) => [column.sort(row), row]);
    valued.sort(([a, one], [b, two]) => way * compared(a, b) || compared(this.key(one), this.key(two)));
    return valued.map(([, row]) => row);
  }

  update(rows, now) {
    this.last = [rows, now];
    const shown = this.sorted(rows).slice(0, this.limit);
    const active = document.activeElement;
    const kept = new Set();
    shown.forEach((row, place) => {
      const key = this.key(row);
      kept.add(key);
      const entry = this.rows.get(key) ?? this.make(key);
      this.fill(entry, row, now);
      if (this.body.children[place] !== entry.tr) this.body.insertBefore(entry.tr, this.body.children[place] ?? null);
    });
    for (const [key, entry] of this.rows) if (!kept.has(key)) this.drop(key, entry);
    if (active !== document.activeElement && active.isConnected) active.focus({ preventScroll: true });
    this.table.hidden = rows.length === 0;
    this.nothing.hidden = rows.length > 0;
    this.below.hidden = rows.length <= this.limit;
    setText(this.more, `Show ${Math.min(STEP, rows.length - this.limit)} more of ${rows.length}`);
  }

  make(key) {
    const cells = this.columns.map((column) => {
      const classes = [column.number ? "number" : "", column.lead ? "lead" : ""].join(" ").trim();
      return h("td", { class: `c-${column.key} ${classes}`.trim(), "data-label": column.label });
    });
    const entry = { tr: h("tr", {}, cells), cells, shown: [] };
    this.rows.set(key, entry);
    return entry;
  }

  drop(key, entry) {
    entry.tr.remove();
    this.rows.delete(key);
  }

  fill(entry, row, now) {
    const mark = this.mark ? this.mark(row) : "";
    if (entry.mark !== mark) entry.tr.className = entry.mark = mark;
    this.columns.forEach((column, place) => {
      const made = column.cell(row, now);
      const text = typeof made === "object" ? made.text : made;
      const shown = typeof made === "object" && made.class ? `${made.class} ${text}` : text;
      if (entry.shown[place] === shown) return;
      entry.shown[place] = shown;
      const cell = entry.cells[place];
      if (typeof made === "object") cell.replaceChildren(made.node());
      else setText(cell, text);
      cell.title = visible(text);
      cell.classList.toggle("none", text === "");
    });
  }

  // Moves the focus among the links of the first column.
  step(by) {
    const links = [...this.body.querySelectorAll("td:first-child a")];
    const here = links.indexOf(document.activeElement);
    const next = here < 0 ? (by > 0 ? 0 : links.length - 1) : here + by;
    links[Math.max(0, Math.min(links.length - 1, next))]?.focus();
  }
}

function compared(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}
