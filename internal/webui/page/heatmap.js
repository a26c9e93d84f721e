// The heat map of a job: one cell per rank, colored by its state and its lag or wait. One cell is in the tab order;
// arrow keys move between cells.
import { byId, el, reconcile, setAttribute, setText } from "./dom.js";
import { count, duration, plural } from "./format.js";

// measures are the values of a rank that color its cell, with the upper bounds of the first levels.
const measures = {
  lag: { of: (r) => r.lag, bounds: [3, 10, 30, 100], text: count, unit: " steps" },
  wait: { of: (r) => r.wait_p99, bounds: [0.1, 1, 5, 30], text: duration, unit: "" },
};
const maxNumbered = 99; // ranks of a heat map that shows their numbers

const measure = () => document.querySelector("input[name=measure]:checked").value;

// level returns the color of a value: 0 for a usual one to 4.
const level = ({ of, bounds }, r) => bounds.filter((b) => of(r) > b).length;

export const missing = (r) => r.state !== "reading";

// drawScale shows the levels of the current measure and the states.
export function drawScale() {
  const { bounds, text, unit } = measures[measure()];
  const levels = [...bounds.map((b) => `≤ ${text(b)}`), `> ${text(bounds.at(-1))}${unit}`].map((name, at) => ({ name, at }));
  const all = [...levels, { name: "not reading", at: "missing" }];
  reconcile(byId("ranks-scale"), all, (x) => x.at, ({ at }) => {
    const name = el("span");
    return { node: el("li", {}, el("i", { class: "cell", "data-level": at }), name), name };
  }, (row, x) => setText(row.name, x.name));
}

// HeatMap shows the ranks of a job. It calls select(cell) for the cell under the pointer or with the focus, null for
// none. A cell has its rank as the property rank.
export class HeatMap {
  constructor(select) {
    this.node = el("div", { class: "heat", role: "toolbar" });
    this.node.addEventListener("keydown", (e) => this.move(e));
    for (const kind of ["pointerover", "focusin"]) this.node.addEventListener(kind, (e) => select(e.target.closest(".cell")));
    this.node.addEventListener("pointerleave", () => select(this.node.querySelector(":focus")));
  }

  // draw shows the ranks in order.
  draw(ranks, label) {
    setAttribute(this.node, "aria-label", label);
    setAttribute(this.node, "data-many", ranks.length > maxNumbered);
    reconcile(this.node, ranks, keyOf, () => {
      const number = el("span");
      return { node: el("button", { type: "button", class: "cell", tabindex: -1 }, number), number };
    }, ({ node, number }, r) => {
      node.rank = r;
      setText(number, missing(r) ? `${r.rank} ✕` : String(r.rank));
      setAttribute(node, "data-level", missing(r) ? "missing" : level(measures[measure()], r));
      setAttribute(node, "data-holds", r.holds);
      setAttribute(node, "aria-label", describe(r));
    });
    if (!this.node.querySelector("[tabindex='0']")) setAttribute(this.node.firstElementChild, "tabindex", 0);
  }

  move(e) {
    const all = [...this.node.children];
    const at = all.indexOf(e.target);
    const columns = all.filter((c) => c.offsetTop === all[0].offsetTop).length;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns, ArrowUp: at - columns, Home: 0, End: all.length - 1 }[e.key];
    if (!all[to]) return;
    e.preventDefault();
    setAttribute(this.node.querySelector("[tabindex='0']"), "tabindex", -1);
    setAttribute(all[to], "tabindex", 0);
    all[to].focus();
  }
}

export const keyOf = (r) => `${r.job} ${r.rank} ${r.world} ${r.daemon} ${r.address}`;
export const stateOf = (r) => (missing(r) ? `${r.state}, ${duration(r.state_seconds)}` : r.state);

// describe is the text alternative of a cell.
const describe = (r) =>
  `Rank ${r.rank} of ${r.world}: ${stateOf(r)}, ${count(r.consumed)} steps ${r.unit === "sent" ? "sent" : "consumed"}, ${plural(r.lag, "step")} behind, wait p99 ${duration(r.wait_p99)}`;
