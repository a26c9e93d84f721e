// Line and stacked area charts over steps, time or another axis, with a readout of the values at the pointer.
import { el, setAttribute, setText, svg } from "./dom.js";
import { Figure } from "./figure.js";
import { powers, scale, ticks, times } from "./scale.js";

const height = 190;
const margin = { top: 10, right: 12, bottom: 24, left: 52 };
const maxTableRows = 24;

// Chart draws {x, xKind ("step", "time" or another noun), xText, xLog, series, yText, low, high, log, stacked, marks}.
// log and xLog are the bases of logarithmic axes. A series is {name, color (0 to 7, or a name in charts.css), values,
// dashed} with one value per entry of x; null leaves a gap. A mark is {x, text}. The legend defaults to the series.
export class Chart extends Figure {
  constructor(...args) {
    super(...args);
    this.plot.addEventListener("pointermove", (e) => this.point(e));
    this.plot.addEventListener("pointerleave", () => this.point(null));
  }

  draw(data) {
    const own = data.series.length > 1 || data.series[0]?.dashed;
    const series = data.series.map((s) => ({ name: s.name, color: s.color, kind: s.dashed ? "dashed" : "" }));
    super.draw({ ...data, legend: data.legend ?? (own ? series : []) });
  }

  render(width) {
    const d = this.data;
    if (!d.x.length) return el("p", { class: "empty" }, "No data yet");
    const [low, high] = this.range();
    const [first, last] = [d.x[0], d.x.at(-1)];
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
        svg("text", { class: "label", x: margin.left - 6, y: y(v) + 4, "text-anchor": "end" }, d.yText(v)),
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
    for (const m of d.marks ?? []) {
      if (m.x <= first || m.x > last) continue;
      out.append(
        svg("line", { class: "mark", x1: x(m.x), x2: x(m.x), y1: margin.top, y2: bottom }, svg("title", {}, m.text)),
      );
    }
    const base = d.x.map(() => 0);
    for (const s of d.series) {
      if (d.stacked) {
        const top = s.values.map((v, i) => base[i] + (v ?? 0));
        const up = d.x.map((v, i) => `${x(v).toFixed(1)},${y(top[i]).toFixed(1)}`);
        const down = d.x.map((v, i) => `${x(v).toFixed(1)},${y(base[i]).toFixed(1)}`).reverse();
        out.append(svg("polygon", { class: `area c-${s.color}`, points: [...up, ...down].join(" ") }));
        top.forEach((v, i) => (base[i] = v));
      } else {
        out.append(
          svg("path", { class: `line c-${s.color}${s.dashed ? " dashed" : ""}`, d: path(d.x, s.values, x, y) }),
        );
      }
    }
    this.cross = svg("line", { class: "cross", y1: margin.top, y2: bottom, visibility: "hidden" });
    out.append(this.cross);
    return out;
  }

  xTicks(first, last, room) {
    const { xKind, xLog } = this.data;
    if (xLog) return powers(first, last, room, xLog);
    return xKind === "time" ? times(first, last, room) : ticks(first, last, room);
  }

  // range returns the bounds of the y axis.
  range() {
    const d = this.data;
    const all = d.stacked
      ? [1]
      : d.series.flatMap((s) => s.values.filter((v) => v !== null && Number.isFinite(v) && (!d.log || v > 0)));
    const low = d.low ?? (all.length ? Math.min(...all) : d.log ? 1 : 0);
    const high = d.high ?? Math.max(all.length ? Math.max(...all) * (d.log ? 1.3 : 1.08) : 1, d.atLeast ?? 0);
    return high > low ? [low, high] : [low, low + 1]; // at most one distinct value
  }

  // describe returns the text alternative for screen readers.
  describe() {
    const { series, yText, x, xText, xKind } = this.data;
    if (!x.length) return `${this.title}: no data yet`;
    const last = series.map((s) => `${s.name} ${text(s.values.at(-1), yText)}`).join(", ");
    const span = `${this.title}, from ${xKind} ${xText(x[0])} to ${xText(x.at(-1))}.`;
    return `${span} At the end: ${last}. The table contains more values.`;
  }

  point(e) {
    const d = this.data;
    if (!e || !d?.x.length || !this.xScale) {
      this.cross?.setAttribute("visibility", "hidden");
      setText(this.readout, "");
      return;
    }
    const at = e.clientX - this.plot.getBoundingClientRect().left;
    let best = 0;
    d.x.forEach((v, i) => {
      if (Math.abs(this.xScale(v) - at) < Math.abs(this.xScale(d.x[best]) - at)) best = i;
    });
    const px = this.xScale(d.x[best]);
    setAttribute(this.cross, "x1", px);
    setAttribute(this.cross, "x2", px);
    setAttribute(this.cross, "visibility", "visible");
    const near = (d.marks ?? []).filter((m) => Math.abs(this.xScale(m.x) - px) < 6).map((m) => m.text);
    setText(
      this.readout,
      [
        `${d.xKind === "time" ? "" : `${d.xKind} `}${d.xText(d.x[best])}`,
        ...d.series.map((s) => `${s.name} ${text(s.values[best], d.yText)}`),
        ...near,
      ].join("  ·  "),
    );
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

const text = (v, yText) => (v === null || v === undefined || !Number.isFinite(v) ? "-" : yText(v));

// path returns the SVG path of a line through the values, with gaps at missing values.
function path(xs, values, x, y) {
  let out = "";
  let pen = "M";
  xs.forEach((v, i) => {
    const value = values[i];
    if (value === null || value === undefined || !Number.isFinite(value)) {
      pen = "M";
      return;
    }
    out += `${pen}${x(v).toFixed(1)},${y(value).toFixed(1)}`;
    pen = "L";
  });
  return out;
}
