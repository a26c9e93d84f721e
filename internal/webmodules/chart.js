// Line and stacked area charts over steps, time or another axis, with a readout of the values at the pointer.
import { el, setAttribute, setText, svg } from "./dom.js";
import { Figure } from "./figure.js";
import { plural } from "./format.js";
import { powers, robustMax, scale, ticks, times } from "./scale.js";

const margin = { top: 10, right: 12, bottom: 24, left: 52 };
const maxTableRows = 24;
const minStackedWidth = 3; // pixels of a column

// Chart draws {x, xEnd, xKind ("step", "time" or another noun), xText, xLog, series, yText, yTick, low, high, log,
// stacked, marks, height}. log and xLog are the bases of logarithmic axes. A series is {name, color (0 to 7, or a name
// in charts.css), values, dashed} with one value per entry of x; null leaves a gap. A stacked value covers the axis up
// to the next entry of x, and the last one up to xEnd. A mark is {x, text}. The legend defaults to the series that are
// not dashed, with their values at the pointer or at the end. peers() returns the charts that show the same pointer.
export class Chart extends Figure {
  constructor(id, title, about, heading, peers = () => [this]) {
    super(id, title, about, heading);
    const all = (at) => peers().forEach((c) => c.point(at));
    this.plot.addEventListener("pointermove", (e) => all(this.indexAt(e.clientX)));
    this.plot.addEventListener("pointerleave", () => all(null));
  }

  draw(data) {
    super.draw(data.legend ? { ...data, own: true } : { ...data, legend: this.valuesAt(data, data.x.length - 1) });
    this.note();
  }

  // valuesAt returns the legend with the values at an index of x.
  valuesAt({ series, yText }, i) {
    const listed = series.filter((s) => !s.dashed);
    return listed.map((s) => ({ name: s.name, color: s.color, value: text(s.values[i], yText) }));
  }

  render(width) {
    const d = this.data;
    if (!d.x.length) return el("p", { class: "empty" }, "No data yet");
    const { height = 190 } = d;
    const [low, high] = this.range();
    const [first, last] = [d.x[0], d.xEnd ?? d.x.at(-1)];
    const right = width - margin.right;
    const bottom = height - margin.bottom;
    const x = (this.xScale = scale(first, last, margin.left, right, d.xLog));
    const y = scale(low, high, bottom, margin.top, d.log);
    const out = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": this.describe(),
    });
    for (const v of d.log ? powers(low, high, 6, d.log) : ticks(low, high, 4)) {
      out.append(
        svg("line", { class: "gridline", x1: margin.left, x2: right, y1: y(v), y2: y(v) }),
        svg("text", { class: "label", x: margin.left - 6, y: y(v) + 4, "text-anchor": "end" }, (d.yTick ?? d.yText)(v)),
      );
    }
    const room = Math.max(2, Math.floor(width / 110));
    let before = "";
    for (const v of this.xTicks(first, last, room)) {
      if (d.xText(v) === before) continue; // adjacent ticks of a short range can have the same label
      before = d.xText(v);
      out.append(
        svg(
          "text",
          { class: "label", x: x(v), y: height - 6, "text-anchor": x(v) > right - 20 ? "end" : "middle" },
          d.xText(v),
        ),
      );
    }
    if (d.stacked) out.append(...this.areas(x, y, right - margin.left));
    else {
      for (const s of d.series) {
        const line = path(d.x, s.values, x, (v) => y(Math.min(v, high)));
        out.append(svg("path", { class: `line c-${s.color}${s.dashed ? " dashed" : ""}`, d: line }));
      }
    }
    for (const m of d.marks ?? []) {
      if (m.x <= first || m.x > last) continue;
      out.append(
        svg("line", { class: "mark", x1: x(m.x), x2: x(m.x), y1: margin.top, y2: bottom }, svg("title", {}, m.text)),
      );
    }
    for (const { i, s } of this.clipped()) {
      const [cx, cy] = [x(d.x[i]).toFixed(1), margin.top];
      const shape = `M${cx},${cy - 8}l5,8h-10z`;
      const value = svg("title", {}, text(s.values[i], d.yText));
      out.append(svg("path", { class: `clipped c-${s.color}`, d: shape }, value));
    }
    this.cross = svg("line", { class: "cross", y1: margin.top, y2: bottom, visibility: "hidden" });
    out.append(this.cross);
    return out;
  }

  // areas returns the stacked series, the top one first, each down to the axis, so that no gap is between two of them.
  // Several values share a column if a column of each would be too narrow.
  areas(x, y, width) {
    const { x: xs, xEnd = xs.at(-1), series } = this.data;
    const every = Math.ceil((minStackedWidth * xs.length) / Math.max(width, minStackedWidth));
    const edges = [...xs.filter((_, i) => i % every === 0), xEnd];
    const tops = edges.slice(1).map(() => 0);
    const paths = series.map((s) => {
      tops.forEach((_, c) => {
        const part = s.values.slice(c * every, (c + 1) * every);
        tops[c] += part.reduce((a, v) => a + (v ?? 0), 0) / part.length;
      });
      const columns = tops.map((v, c) => `V${y(v).toFixed(1)}H${x(edges[c + 1]).toFixed(1)}`);
      const d = `M${x(edges[0]).toFixed(1)},${y(0)}${columns.join("")}V${y(0)}z`;
      return svg("path", { class: `area c-${s.color}`, d });
    });
    return paths.reverse();
  }

  // clipped returns the values above the axis as {s, i}: a series and an index of x.
  clipped() {
    const { series, stacked } = this.data;
    const high = stacked ? Infinity : this.range()[1];
    return series.flatMap((s) => s.values.flatMap((v, i) => (Number.isFinite(v) && v > high ? [{ s, i }] : [])));
  }

  xTicks(first, last, room) {
    const { xKind, xLog } = this.data;
    if (xLog) return powers(first, last, room, xLog);
    return xKind === "time" ? times(first, last, room) : ticks(first, last, room);
  }

  // range returns the bounds of the y axis. Outliers do not extend it, and a linear axis ends at a tick.
  range() {
    const d = this.data;
    const all = d.stacked
      ? [1]
      : d.series.flatMap((s) => s.values.filter((v) => v !== null && Number.isFinite(v) && (!d.log || v > 0)));
    const low = d.low ?? (all.length ? Math.min(...all) : d.log ? 1 : 0);
    const most = d.log ? 1.3 * Math.max(...all) : robustMax(all);
    const high = d.high ?? Math.max(all.length ? most : 1, d.atLeast ?? 0);
    if (!(high > low)) return [low, low + 1]; // at most one distinct value
    const [a, b] = ticks(low, high, 4);
    return [low, d.log || d.high || !b ? high : Math.ceil(high / (b - a) - 1e-9) * (b - a)];
  }

  // describe returns the text alternative for screen readers.
  describe() {
    const { series, yText, x, xText, xKind } = this.data;
    if (!x.length) return `${this.title}: no data yet`;
    const last = series.map((s) => `${s.name} ${text(s.values.at(-1), yText)}`).join(", ");
    const span = `${this.title}, from ${xKind} ${xText(x[0])} to ${xText(x.at(-1))}.`;
    return `${span} At the end: ${last}. ${this.clippedNote()} The table contains more values.`.replace("  ", " ");
  }

  // clippedNote describes the clipped values, empty without any.
  clippedNote() {
    const values = this.clipped().map(({ s, i }) => s.values[i]);
    if (!values.length) return "";
    return `${plural(values.length, "value")} above the axis, up to ${this.data.yText(Math.max(...values))}.`;
  }

  // indexAt returns the index of x that is closest to a horizontal position in the window.
  indexAt(clientX) {
    const { x } = this.data ?? { x: [] };
    if (!x.length || !this.xScale) return null;
    const at = clientX - this.plot.getBoundingClientRect().left;
    const distances = x.map((v) => Math.abs(this.xScale(v) - at));
    return distances.indexOf(Math.min(...distances));
  }

  // point shows the values at an index of x, by default the last.
  point(i) {
    const d = this.data;
    if (!d?.x.length || !this.xScale) return;
    setAttribute(this.cross, "visibility", i === null ? "hidden" : "visible");
    if (!d.own) this.drawLegend(this.valuesAt(d, i ?? d.x.length - 1));
    if (i === null) {
      this.note();
      return;
    }
    const px = this.xScale(d.x[i]);
    setAttribute(this.cross, "x1", px);
    setAttribute(this.cross, "x2", px);
    const values = d.own ? d.series.map((s) => `${s.name} ${text(s.values[i], d.yText)}`) : [];
    const near = (d.marks ?? []).filter((m) => Math.abs(this.xScale(m.x) - px) < 6).map((m) => m.text);
    const at = `${d.xKind === "time" ? "" : `${d.xKind} `}${d.xText(d.x[i])}`;
    setText(this.readout, [at, ...values, ...near].join("  ·  "));
  }

  // note shows the clipped values while the pointer is elsewhere.
  note() {
    setText(this.readout, this.data.x.length ? this.clippedNote() : "");
  }

  rows() {
    const { x, xText, xKind, series, yText } = this.data;
    const every = Math.max(1, Math.ceil(x.length / maxTableRows));
    const shown = x.map((_, i) => i).filter((i) => i % every === 0 || i === x.length - 1);
    return [
      [xKind[0].toUpperCase() + xKind.slice(1), ...series.map((s) => s.name)],
      ...shown.map((i) => [xText(x[i]), ...series.map((s) => text(s.values[i], yText))]),
    ];
  }
}

const drawn = (v) => v !== null && v !== undefined && Number.isFinite(v);
const text = (v, yText) => (drawn(v) ? yText(v) : "-");

// path returns the SVG path of a line through the values, with gaps at missing values. A single value becomes a dot.
function path(xs, values, x, y) {
  return xs.reduce((out, v, i) => {
    if (!drawn(values[i])) return out;
    const before = i > 0 && drawn(values[i - 1]);
    const dot = !before && !drawn(values[i + 1]) ? "h0" : "";
    return `${out}${before ? "L" : "M"}${x(v).toFixed(1)},${y(values[i]).toFixed(1)}${dot}`;
  }, "");
}
