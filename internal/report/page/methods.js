// A figure with a line for each method: its name, marks along an axis, and a number at the end.
import { el, svg } from "./dom.js";
import { Figure } from "./figure.js";
import { percentTick } from "./format.js";
import { spaced } from "./scale.js";

const axis = 26; // pixels below the lines, for the labels of the axis

// MethodFigure shows {results, best, each, place, ticks, tickText, number, paint, label, table}: each is the height of
// a line in pixels, place(v) the place of a value as a part of the axis, number(result) the text at the end, and table is
// [heads, ...lines]. paint(result, y, width) returns drawn marks, with y the middle of the line and places along the
// axis in percent, so that the drawing fits any width.
class MethodFigure extends Figure {
  render(width) {
    const { results, best, each = 22, place, ticks, tickText, number, paint, label } = this.data;
    const tall = results.length * each;
    const track = svg("svg", { class: "track", width: "100%", height: tall + axis, role: "img", "aria-label": label });
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
    node.style.gridTemplateRows = `repeat(${results.length}, ${each}px) ${axis}px`;
    this.plot.replaceChildren(node);
    const room = Math.max(track.clientWidth + width - this.plot.clientWidth, 1);
    for (const v of spaced(ticks, (v) => place(v) * room, tickText)) {
      const x = percents(place(v));
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

// percents writes a part of the axis as a length of SVG.
export const percents = (part) => `${(100 * part).toFixed(2)}%`;

export const line = (from, to, y, properties = {}) =>
  svg("line", { class: "m-line", x1: percents(from), x2: percents(to), y1: y, y2: y, ...properties });

// box is a bar between two parts of the axis, around y.
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

// median is a dot that is seen on a bar.
const median = (at, y) => svg("circle", { class: "m-median", cx: percents(at), cy: y, r: 3.25 });

// curves draws shapes over the whole axis: their points have x from 0 to 1, and y from 0 to 1 over the height,
// downward.
export const curves = (y, height, ...shapes) =>
  svg(
    "svg",
    { x: 0, y: y - height / 2, width: "100%", height, viewBox: "0 0 1 1", preserveAspectRatio: "none" },
    ...shapes,
  );

// points writes the points of a shape.
export const points = (list) => list.map(([x, y]) => `${x.toFixed(4)},${y.toFixed(4)}`).join(" ");

// unit is the axis of shares.
export const unit = { place: (v) => v, ticks: [0, 0.25, 0.5, 0.75, 1], tickText: percentTick };

// quantiles are the marks of a distribution: nine of ten (5 % to 95 %) within the bar, half within the thick one, the
// median as a dot.
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

// perMethod returns a figure with a line for each of the results; its table is given as columns, [name, text(result)].
export const perMethod = (report, results, figure) => ({
  kind: MethodFigure,
  ...figure,
  data: {
    results,
    best: report.best,
    label: `${figure.title}. The table behind has the numbers.`,
    ...figure.data,
    table: [
      ["Method", ...figure.data.table.map(([name]) => name)],
      ...results.map((r) => [r.method, ...figure.data.table.map(([, text]) => text(r))]),
    ],
  },
});
