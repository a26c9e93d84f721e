// The heat map of a job: one cell per rank, colored by its state and its lag or wait. One cell is in the tab order;
// arrow keys move between cells.
import { byId, el, reconcile, setAttribute, setText } from "./dom.js";
import { bytes, count, daemonName, duration, elapsed, plural } from "./format.js";

// measures are the values of a rank that color its cell, with the upper bounds of the first levels.
const measures = {
  lag: { of: (r) => r.lag, bounds: [3, 10, 30, 100], text: (n) => plural(n, "step") },
  wait: { of: (r) => r.wait_p99, bounds: [0.1, 1, 5, 30], text: duration },
};
const maxNumbered = 99; // ranks of a heat map that shows their numbers

const measure = () => document.querySelector("input[name=measure]:checked").value;

// level returns the color of a value: 0 for a usual one to 4.
const level = ({ of, bounds }, r) => bounds.filter((b) => of(r) > b).length;

export const missing = (r) => r.state !== "reading";

// drawScale shows the levels of the current measure and the states.
export function drawScale() {
  const { bounds, text } = measures[measure()];
  const levels = [...bounds.map((b) => `≤ ${text(b)}`), "more"].map((name, i) => ({ name, at: i }));
  const all = [...levels, { name: "not reading", at: "missing" }];
  reconcile(byId("ranks-scale"), all, (x) => x.at, ({ at }) => {
    const name = el("span");
    return { node: el("li", {}, el("i", { class: "cell", "data-level": at }), name), name };
  }, (row, x) => setText(row.name, x.name));
}

// HeatMap shows the ranks of a job, and the values of one of them.
export class HeatMap {
  constructor() {
    this.cells = el("div", { class: "heat", role: "toolbar" });
    this.detail = el("dl", { class: "detail" });
    this.node = el("div", {}, this.cells, this.detail);
    this.cells.addEventListener("keydown", (e) => this.move(e));
    for (const kind of ["pointerover", "focusin"]) this.cells.addEventListener(kind, (e) => this.select(e.target.closest("button")));
    this.cells.addEventListener("pointerleave", () => this.select(this.cells.querySelector(":focus")));
  }

  // draw shows the ranks in order. While no cell is selected, the detail is that of worst.
  draw(ranks, worst, label, now) {
    Object.assign(this, { worst, now });
    setAttribute(this.cells, "aria-label", label);
    setAttribute(this.cells, "data-many", ranks.length > maxNumbered);
    reconcile(this.cells, ranks, keyOf, (r) => {
      const number = el("span");
      return { node: el("button", { type: "button", class: "cell", tabindex: -1, "data-key": keyOf(r) }, number), number };
    }, ({ node, number }, r) => {
      node.rank = r;
      setText(number, missing(r) ? `${r.rank} ✕` : String(r.rank));
      setAttribute(node, "data-level", missing(r) ? "missing" : level(measures[measure()], r));
      setAttribute(node, "data-holds", r.holds);
      setAttribute(node, "aria-label", describe(r));
    });
    if (!this.cells.querySelector("[tabindex='0']")) setAttribute(this.cells.firstElementChild, "tabindex", 0);
    this.select(this.selected?.isConnected ? this.selected : null);
  }

  // select shows the values of a cell's rank.
  select(cell) {
    this.selected = cell;
    const r = cell?.rank ?? this.worst;
    const values = [["Rank", `${r.rank} of ${r.world}`], ["State", stateOf(r)], ["Lag", plural(r.lag, "step")],
      ["Wait", `${duration(r.wait_p50)}, p99 ${duration(r.wait_p99)}`], ["Sent", `${bytes(r.bytes)}/s`], ["Daemon", daemonName(r.daemon)],
      ["Client", clientOf(r)], ["Connected for", elapsed(r.since, this.now)]];
    reconcile(this.detail, values, ([name]) => name, ([name]) => {
      const value = el("dd");
      return { node: el("div", {}, el("dt", {}, name), value), value };
    }, (row, [, value]) => setText(row.value, value));
  }

  move(e) {
    const all = [...this.cells.children];
    const at = all.indexOf(e.target);
    const columns = all.filter((c) => c.offsetTop === all[0].offsetTop).length;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns, ArrowUp: at - columns, Home: 0, End: all.length - 1 }[e.key];
    if (!all[to]) return;
    e.preventDefault();
    setAttribute(this.cells.querySelector("[tabindex='0']"), "tabindex", -1);
    setAttribute(all[to], "tabindex", 0);
    all[to].focus();
  }
}

export const keyOf = (r) => `${r.rank} ${r.daemon} ${r.address}`;
export const stateOf = (r) => (missing(r) ? `${r.state}, ${duration(r.state_seconds)}` : r.state);
export const clientOf = (r) => (r.identity ? `${r.identity}, ${r.address}` : r.address);

// describe is the text alternative of a cell.
const describe = (r) =>
  `Rank ${r.rank} of ${r.world}: ${stateOf(r)}, ${count(r.consumed)} steps ${r.unit === "sent" ? "sent" : "consumed"}, ${plural(r.lag, "step")} behind, wait p99 ${duration(r.wait_p99)}`;
