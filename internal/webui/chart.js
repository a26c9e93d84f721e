// A chart: lines or stacked areas over steps or time, drawn as SVG as wide as its place, with a legend, what stands under the pointer, and a table behind it.
import { el, keyed, mark, say, show, svg } from "./dom.js";
import { powers, scale, ticks, times } from "./scale.js";

const height = 190;
const edge = { top: 10, right: 12, bottom: 24, left: 52 };
const spoken = 24; // rows of the table behind a chart

// Chart shows what draw is given: {x, xKind ("step" or "time"), xText, series, yText, low, high, log, stacked, marks}; series are
// {name, color (0 to 7, or a name of charts.css), values, dashed}, a value each for an entry of x; null leaves a gap. marks are {x, text}.
export class Chart {
  constructor(id, title, about) {
    this.title = title;
    this.plot = el("div", { class: "plot" });
    this.legend = el("ul", { class: "legend" });
    this.readout = el("p", { class: "readout small", "aria-hidden": "true" });
    this.table = el("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": `${title}, a table` });
    this.behind = el("details", { ontoggle: () => this.tabulate() }, el("summary", {}, "Table"), this.table);
    this.node = el("section", { class: "chart", "aria-labelledby": `${id}-title`, id },
      el("h3", { id: `${id}-title` }, title), el("p", { class: "small" }, about), this.legend, this.plot, this.readout, this.behind);
    this.plot.addEventListener("pointermove", (e) => this.point(e));
    this.plot.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.data && this.render()).observe(this.plot);
  }

  draw(data) {
    this.data = data;
    keyed(this.legend, data.series, (s) => s.name, () => {
      const swatch = el("i");
      const text = el("span");
      return { node: el("li", {}, swatch, text), swatch, text };
    }, (row, s) => {
      mark(row.swatch, "class", `c-${s.color}${s.dashed ? " dashed" : ""}`);
      say(row.text, s.name);
    });
    show(this.legend, data.series.length > 1 || Boolean(data.series[0]?.dashed));
    this.render();
    this.tabulate();
  }

  render() {
    const d = this.data;
    const width = Math.round(this.plot.clientWidth);
    if (!width) return;
    if (!d.x.length) {
      this.plot.replaceChildren(el("p", { class: "empty" }, "Nothing yet"));
      return;
    }
    const [low, high] = this.range();
    const [first, last] = [d.x[0], d.x.at(-1)];
    const right = width - edge.right;
    const bottom = height - edge.bottom;
    const x = (this.place = scale(first, last, edge.left, right));
    const y = scale(low, high, bottom, edge.top, d.log);
    const out = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": this.describe() });
    for (const v of d.log ? powers(low, high, 6) : ticks(low, high, 4)) {
      out.append(svg("line", { class: "gridline", x1: edge.left, x2: right, y1: y(v), y2: y(v) }),
        svg("text", { class: "label", x: edge.left - 6, y: y(v) + 4, "text-anchor": "end" }, d.yText(v)));
    }
    const room = Math.max(2, Math.floor(width / 110));
    let before = "";
    for (const v of d.xKind === "time" ? times(first, last, room) : ticks(first, last, room)) {
      if (d.xText(v) === before) continue; // a few steps have fewer numbers than an axis has room for
      before = d.xText(v);
      out.append(svg("text", { class: "label", x: x(v), y: height - 6, "text-anchor": x(v) > right - 20 ? "end" : "middle" }, d.xText(v)));
    }
    for (const m of d.marks ?? []) {
      if (m.x <= first || m.x > last) continue;
      out.append(svg("line", { class: "mark", x1: x(m.x), x2: x(m.x), y1: edge.top, y2: bottom }, svg("title", {}, m.text)));
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
        out.append(svg("path", { class: `line c-${s.color}${s.dashed ? " dashed" : ""}`, d: path(d.x, s.values, x, y) }));
      }
    }
    this.cross = svg("line", { class: "cross", y1: edge.top, y2: bottom, visibility: "hidden" });
    out.append(this.cross);
    this.plot.replaceChildren(out);
  }

  // range is that of the values, rounded to what the axis shows.
  range() {
    const d = this.data;
    const all = d.stacked ? [1] : d.series.flatMap((s) => s.values.filter((v) => v !== null && Number.isFinite(v) && (!d.log || v > 0)));
    const low = d.low ?? (all.length ? Math.min(...all) : d.log ? 1 : 0);
    const high = d.high ?? Math.max(all.length ? Math.max(...all) * (d.log ? 1.3 : 1.08) : 1, d.atLeast ?? 0);
    return high > low ? [low, high] : [low, low + 1]; // a single value, or none
  }

  // describe says in words what somebody who does not see the chart may want to know first.
  describe() {
    const { series, yText, x, xText, xKind } = this.data;
    if (!x.length) return `${this.title}: nothing yet`;
    const last = series.map((s) => `${s.name} ${text(s.values.at(-1), yText)}`).join(", ");
    return `${this.title}, from ${xKind} ${xText(x[0])} to ${xText(x.at(-1))}. At the end: ${last}. The table behind has more.`;
  }

  point(e) {
    const d = this.data;
    if (!e || !d?.x.length || !this.place) {
      this.cross?.setAttribute("visibility", "hidden");
      say(this.readout, "");
      return;
    }
    const at = e.clientX - this.plot.getBoundingClientRect().left;
    let best = 0;
    d.x.forEach((v, i) => {
      if (Math.abs(this.place(v) - at) < Math.abs(this.place(d.x[best]) - at)) best = i;
    });
    const px = this.place(d.x[best]);
    mark(this.cross, "x1", px);
    mark(this.cross, "x2", px);
    mark(this.cross, "visibility", "visible");
    const near = (d.marks ?? []).filter((m) => Math.abs(this.place(m.x) - px) < 6).map((m) => m.text);
    say(this.readout, [`${d.xKind === "time" ? "" : "step "}${d.xText(d.x[best])}`, ...d.series.map((s) => `${s.name} ${text(s.values[best], d.yText)}`), ...near].join("  ·  "));
  }

  tabulate() {
    if (!this.behind.open || !this.data) return;
    const { x, xText, xKind, series, yText } = this.data;
    const every = Math.max(1, Math.ceil(x.length / spoken));
    const rows = x.map((_, i) => i).filter((i) => i % every === 0 || i === x.length - 1);
    this.table.replaceChildren(el("table", {}, el("caption", { class: "unseen" }, this.title),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, xKind === "time" ? "Time" : "Step"), ...series.map((s) => el("th", { scope: "col" }, s.name)))),
      el("tbody", {}, ...rows.map((i) => el("tr", {}, el("th", { scope: "row" }, xText(x[i])), ...series.map((s) => el("td", {}, text(s.values[i], yText))))))));
  }
}

const text = (v, yText) => (v === null || v === undefined || !Number.isFinite(v) ? "-" : yText(v));

// path is a line through values, with gaps where there are none.
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
