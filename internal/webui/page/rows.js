// The rows of a step, each as a strip of spans to scale. One span is in the tab order; arrow keys move between spans.
import { el, setAttribute, setText, setVisible } from "./dom.js";
import { startInDocument, documentName, percent, plural } from "./format.js";

const initialRows = 64; // rows drawn until more are requested

// Rows calls choose(piece, chosen) for the span under the pointer or with the focus; chosen is true if it was opened.
// sources() returns the names of the run's sources, in order.
export class Rows {
  constructor(choose, sources) {
    this.choose = choose;
    this.sources = sources;
    this.grid = el("div", { class: "rows", role: "grid", "aria-label": "Rows of the step" });
    this.legend = el("ul", { class: "legend" });
    this.more = el("button", { type: "button", class: "plain", onclick: () => this.draw(this.step, undefined, this.drawn + 4 * initialRows) });
    this.node = el("div", {}, this.legend, this.grid, this.more);
    this.grid.addEventListener("keydown", (e) => this.move(e));
    for (const kind of ["pointerover", "focusin"]) this.grid.addEventListener(kind, (e) => this.select(e.target, false));
    this.grid.addEventListener("click", (e) => this.select(e.target, true));
  }

  draw(step, marked, upTo = initialRows) {
    this.step = step;
    this.drawn = Math.min(Math.max(upTo, (marked ?? 0) + 1), step.rows.length);
    this.colors = colorsOf(this.sources());
    this.pieces = new Map();
    const rows = step.rows.slice(0, this.drawn).map((row, i) => this.row(row, i, step.bucket, i === marked));
    this.grid.replaceChildren(...rows);
    setAttribute(this.grid, "aria-rowcount", step.rows.length);
    setVisible(this.more, this.drawn < step.rows.length);
    setText(this.more, `Show more of the ${plural(step.rows.length, "row")}`);
    const sources = this.sources().length > 1 ? [...new Set(step.rows.flat().map((p) => p.source))] : [];
    this.legend.replaceChildren(...sources.map((s) => el("li", {}, el("i", { class: `c-${this.colors({ source: s })}` }), s)),
      el("li", {}, el("i", { class: "padding" }), "padding"));
    const first = marked === undefined ? this.grid.querySelector("[role=gridcell]") : rows[marked]?.querySelector("[role=gridcell]");
    first?.setAttribute("tabindex", "0");
    if (marked !== undefined) first?.focus();
  }

  row(row, index, bucket, marked) {
    let filled = 0;
    const cells = row.map((p) => {
      filled += p.length;
      const cell = el("span", { role: "gridcell", tabindex: -1, class: `piece c-${this.colors(p)}${startInDocument(p) > 0 ? " goes-on" : ""}`, "aria-label": `${documentName(p)}, ${plural(p.length, "token")} from ${startInDocument(p)}` });
      cell.style.flexGrow = p.length;
      this.pieces.set(cell, { ...p, row: index });
      return cell;
    });
    const padding = bucket - filled;
    const name = el("span", { class: "row-number", role: "rowheader" }, String(index));
    const rest = padding > 0 ? el("span", { class: "padding", role: "gridcell", "aria-label": `${plural(padding, "token")} of padding`, title: `${plural(padding, "token")} of padding, ${percent(padding / bucket)} of the row` }) : null;
    if (rest) rest.style.flexGrow = padding;
    return el("div", { class: `row${marked ? " marked" : ""}`, role: "row", "aria-rowindex": index + 1 }, name, ...cells, rest);
  }

  select(cell, chosen) {
    const piece = this.pieces?.get(cell);
    if (piece) this.choose(piece, chosen);
  }

  move(e) {
    const cell = e.target;
    if (!this.pieces?.has(cell)) return;
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      this.select(cell, true);
      return;
    }
    const row = cell.parentElement;
    const inRow = (r) => [...(r?.querySelectorAll("[role=gridcell]") ?? [])].filter((c) => this.pieces.has(c));
    const cells = inRow(row);
    const at = cells.indexOf(cell);
    const next = { ArrowRight: cells[at + 1] ?? inRow(row.nextElementSibling)[0], ArrowLeft: cells[at - 1] ?? inRow(row.previousElementSibling).at(-1),
      ArrowDown: near(inRow(row.nextElementSibling), at), ArrowUp: near(inRow(row.previousElementSibling), at), Home: cells[0], End: cells.at(-1) }[e.key];
    if (!next) return;
    e.preventDefault();
    cell.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }
}

const near = (cells, at) => cells[Math.min(at, cells.length - 1)];

// colorsOf returns a function from a span to its color: by source or, in a run with one source, by document.
function colorsOf(sources) {
  return (p) => (sources.length > 1 ? Math.max(sources.indexOf(p.source), 0) : p.sequence * 5 + (p.index ?? 0) * 3) % 8;
}
