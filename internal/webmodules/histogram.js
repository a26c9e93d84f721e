// A histogram over a logarithmic axis, with an optional second distribution as a line and optional vertical marks.
import { svg } from "./dom.js";
import { Figure } from "./figure.js";
import { percent, percentTick } from "./format.js";
import { scale, spaced, ticks } from "./scale.js";

const margin = { top: 10, right: 12, bottom: 24, left: 52 };

// Histogram draws {bins, low, high, xTicks, xText, marks, label, columns, height}. A bin is {from, to, name, share,
// line}; share and line are fractions of 1. A mark is {x, text}, with its text above the line. A column of the table
// is [name, text(bin)].
export class Histogram extends Figure {
  render(width) {
    const { bins, low, high, xTicks, xText, marks = [], label, height = 190 } = this.data;
    const bottom = height - margin.bottom;
    const top = margin.top + (marks.length ? 14 : 0);
    const most = Math.max(...bins.map((b) => Math.max(b.share, b.line ?? 0)), 1e-9) * 1.04;
    const x = scale(low, high, margin.left, width - margin.right, true);
    const y = scale(0, most, bottom, top);
    const out = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    for (const v of ticks(0, most, 4)) {
      out.append(
        svg("line", { class: "gridline", x1: margin.left, x2: width - margin.right, y1: y(v), y2: y(v) }),
        svg("text", { class: "label", x: margin.left - 6, y: y(v) + 4, "text-anchor": "end" }, percentTick(v)),
      );
    }
    for (const b of bins) {
      out.append(
        svg(
          "rect",
          {
            class: "bar-c",
            x: x(b.from) + 0.5,
            y: y(b.share),
            width: Math.max(x(b.to) - x(b.from) - 1, 0.5),
            height: bottom - y(b.share),
          },
          svg("title", {}, `${b.name} tokens: ${percent(b.share)}`),
        ),
      );
    }
    let free = width;
    for (const m of [...marks].reverse()) {
      out.append(svg("line", { class: "mark", x1: x(m.x), x2: x(m.x), y1: top, y2: bottom }));
      const half = 3.5 * m.text.length;
      const at = Math.min(x(m.x), width - half);
      if (at + half > free) continue; // its text would overlap the next one
      out.append(svg("text", { class: "label", x: at, y: 12, "text-anchor": "middle" }, m.text));
      free = at - half - 4;
    }
    if (bins[0]?.line !== undefined) {
      out.append(
        svg("path", {
          class: "line c-warn",
          d: bins
            .map((b, i) => `${i ? "L" : "M"}${x(b.from).toFixed(1)},${y(b.line).toFixed(1)}H${x(b.to).toFixed(1)}`)
            .join(""),
        }),
      );
    }
    for (const v of spaced(xTicks, x, xText)) {
      const at = Math.min(x(v), width - 3.5 * xText(v).length);
      out.append(svg("text", { class: "label", x: at, y: height - 6, "text-anchor": "middle" }, xText(v)));
    }
    return out;
  }

  rows() {
    const { bins, columns } = this.data;
    return [
      ["Tokens", ...columns.map(([name]) => name)],
      ...bins.filter((b) => b.share > 0).map((b) => [b.name, ...columns.map(([, text]) => text(b))]),
    ];
  }
}
