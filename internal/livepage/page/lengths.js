// The lengths of documents' pieces, those of the last steps against those of the whole run: bars by powers of two.
import { el, mark, svg } from "./dom.js";
import { count, percent, short } from "./format.js";

const height = 190;
const edge = { top: 10, right: 12, bottom: 24, left: 52 };

// Lengths draws a histogram: [0] are pieces of 1 token, [i] those of 2^(i-1)+1 to 2^i.
export class Lengths {
  constructor() {
    this.plot = el("div", { class: "plot" });
    this.table = el("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": "Lengths of pieces, a table" });
    this.behind = el("details", { ontoggle: () => this.tabulate() }, el("summary", {}, "Table"), this.table);
    this.node = el("section", { class: "chart", id: "chart-corpus", "aria-labelledby": "chart-corpus-title" }, el("h3", { id: "chart-corpus-title" }, "Lengths of the whole run"),
      el("p", { class: "small" }, "Pieces of documents by their length in tokens. Compare the median of each step with it."), this.plot, this.behind);
    new ResizeObserver(() => this.counts && this.render()).observe(this.plot);
  }

  draw(counts) {
    this.counts = counts;
    this.render();
    this.tabulate();
  }

  render() {
    const width = Math.round(this.plot.clientWidth);
    if (!width) return;
    const all = this.counts.reduce((a, b) => a + b, 0);
    const first = Math.max(this.counts.findIndex((n) => n > 0), 0);
    const shown = this.counts.slice(first, this.counts.findLastIndex((n) => n > 0) + 1);
    const most = Math.max(...shown, 1);
    const each = (width - edge.left - edge.right) / Math.max(shown.length, 1);
    const bottom = height - edge.bottom;
    const out = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Lengths of ${short(all)} pieces. The table behind has each.` });
    const every = Math.ceil(shown.length / Math.max(2, Math.floor(width / 60)));
    shown.forEach((n, i) => {
      const tall = ((bottom - edge.top) * n) / most;
      out.append(svg("rect", { class: "bar-c", x: edge.left + i * each + 1, y: bottom - tall, width: Math.max(each - 2, 1), height: tall }, svg("title", {}, `${range(first + i)} tokens: ${percent(n / (all || 1))}`)));
      if (i % every === 0) out.append(svg("text", { class: "label", x: edge.left + (i + 0.5) * each, y: height - 6, "text-anchor": "middle" }, short(2 ** (first + i))));
    });
    for (const share of [0.5, 1]) {
      const y = bottom - (bottom - edge.top) * share;
      out.append(svg("line", { class: "gridline", x1: edge.left, x2: width - edge.right, y1: y, y2: y }),
        svg("text", { class: "label", x: edge.left - 6, y: y + 4, "text-anchor": "end" }, percent((most * share) / (all || 1))));
    }
    mark(this.plot, "data-drawn", "");
    this.plot.replaceChildren(out);
  }

  tabulate() {
    if (!this.behind.open || !this.counts) return;
    const rows = this.counts.map((n, i) => [range(i), n]).filter(([, n]) => n > 0);
    this.table.replaceChildren(el("table", {}, el("caption", { class: "unseen" }, "Lengths of pieces"),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Tokens"), el("th", { scope: "col" }, "Pieces"))),
      el("tbody", {}, ...rows.map(([name, n]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, count(n)))))));
  }
}

const range = (i) => (i < 2 ? String(2 ** i) : `${count(2 ** (i - 1) + 1)} to ${count(2 ** i)}`);
