// Plots with one row per method: its name, marks along an axis, and a number.
import { el, svg } from "./dom.js";
import { Figure } from "./figure.js";
import { percentTick } from "./format.js";
import { spaced } from "./scale.js";

const axisHeight = 26; // pixels below the rows, for the labels of the axis

// MethodFigure draws {results, best, each, position, ticks, tickText, number, paint, label, table}. each is the height
// of a row in pixels, position(v) maps a value to a fraction of the axis, number(result) is the text at the right, and
// table is [heads, ...lines]. paint(result, y, width) returns SVG elements. y is the middle of the row; x coordinates
// are in percent, so that the plot fits any width.
class MethodFigure extends Figure {
  render(width) {
    const { results, best, each = 22, position, ticks, tickText, number, paint, label } = this.data;
    const tall = results.length * each;
    const height = tall + axisHeight;
    const track = svg("svg", { class: "track", width: "100%", height, role: "img", "aria-label": label });
    const node = el("div", { class: "methods" }, track);
    results.forEach((r, i) => {
      const mine = r.method === best ? " best" : "";
      for (const [column, text] of [
        ["name", r.method],
        ["number", number(r)],
      ]) {
        const cell = el("span", { class: column + mine }, text);
        cell.style.gridRow = i + 1;
        node.append(cell);
      }
    });
    node.style.gridTemplateRows = `repeat(${results.length}, ${each}px) ${axisHeight}px`;
    this.plot.replaceChildren(node);
    const room = Math.max(track.clientWidth + width - this.plot.clientWidth, 1);
    for (const v of spaced(ticks, (v) => position(v) * room, tickText)) {
      const x = percents(position(v));
      track.append(
        svg("line", { class: "gridline", x1: x, x2: x, y1: 0, y2: tall + 5 }),
        svg("text", { class: "label", x, y: tall + 20, "text-anchor": "middle" }, tickText(v)),
      );
    }
    results.forEach((r, i) =>
      track.append(svg("g", { class: r.method === best ? "best" : "other" }, ...paint(r, (i + 0.5) * each, room))),
    );
    return node;
  }

  rows() {
    return this.data.table;
  }
}

// percents formats a fraction of the axis as an SVG length.
export const percents = (part) => `${(100 * part).toFixed(2)}%`;

export const line = (from, to, y, properties = {}) =>
  svg("line", { class: "m-line", x1: percents(from), x2: percents(to), y1: y, y2: y, ...properties });

// box returns a bar between two fractions of the axis, centered on y.
export const box = (from, to, y, half, properties = {}, ...children) =>
  svg(
    "rect",
    {
      class: "m-fill",
      x: percents(from),
      width: percents(Math.max(to - from, 0)),
      y: y - half,
      height: 2 * half,
      ...properties,
    },
    ...children,
  );

export const dot = (at, y, properties = {}) =>
  svg("circle", { class: "m-fill", cx: percents(at), cy: y, r: 4.5, ...properties });

// median returns a dot that is visible on a bar.
const median = (at, y) => svg("circle", { class: "m-median", cx: percents(at), cy: y, r: 3.25 });

// curves returns shapes over the whole axis. Their points have x from 0 to 1, and y from 0 (top) to 1 (bottom).
export const curves = (y, height, ...shapes) =>
  svg(
    "svg",
    { x: 0, y: y - height / 2, width: "100%", height, viewBox: "0 0 1 1", preserveAspectRatio: "none" },
    ...shapes,
  );

// points formats the points of a shape.
export const points = (list) => list.map(([x, y]) => `${x.toFixed(4)},${y.toFixed(4)}`).join(" ");

// unit is an axis from 0 to 100 %.
export const unit = { position: (v) => v, ticks: [0, 0.25, 0.5, 0.75, 1], tickText: percentTick };

// quantiles returns the marks of a distribution: a thin bar from the 5th to the 95th percentile, a thick bar from the
// 25th to the 75th percentile, and a dot at the median.
export const quantiles = (at, y) => [
  box(at(0.05), at(0.95), y, 2.5),
  box(at(0.25), at(0.75), y, 6),
  median(at(0.5), y),
];
export const quantileLegend = (what) => [
  { name: "median", kind: "ball ink" },
  { name: `half of the ${what}`, kind: "gray" },
  { name: "90 %", kind: "stroke thick" },
];

// perMethod returns a plot with one row per result. figure.data.table is a list of columns [name, text(result)].
export const perMethod = (report, results, figure) => ({
  kind: MethodFigure,
  ...figure,
  data: {
    results,
    best: report.best,
    label: `${figure.title}. The table contains all values.`,
    ...figure.data,
    table: [
      ["Method", ...figure.data.table.map(([name]) => name)],
      ...results.map((r) => [r.method, ...figure.data.table.map(([, text]) => text(r))]),
    ],
  },
});
