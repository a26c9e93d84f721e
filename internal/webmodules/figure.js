// A figure: a title, a legend, a drawing as wide as its place, and a table of what it shows.
import { el, reconcile, setAttribute, setText, setVisible } from "./dom.js";

// Figure draws what draw is given. A subclass has render(width), which returns what is drawn, and rows(), the table:
// [heads, ...lines], lists of texts. data.legend is a list of {name, color, kind, fill}: a color of charts.css, a
// further class of the swatch, and a color that no style sheet has.
export class Figure {
  constructor(id, title, about, heading = "h3") {
    this.title = title;
    this.legend = el("ul", { class: "legend" });
    this.plot = el("div", { class: "plot" });
    this.readout = el("p", { class: "readout small", "aria-hidden": "true" });
    this.table = el("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": `${title}, a table` });
    this.behind = el("details", { ontoggle: () => this.tabulate() }, el("summary", {}, "Table"), this.table);
    this.node = el(
      "section",
      { class: "chart", "aria-labelledby": `${id}-title`, id },
      el(heading, { id: `${id}-title` }, title),
      el("p", { class: "small" }, about),
      this.legend,
      this.plot,
      this.readout,
      this.behind,
    );
    new ResizeObserver(() => this.resize()).observe(this.plot);
  }

  draw(data) {
    this.data = data;
    const legend = data.legend ?? [];
    reconcile(
      this.legend,
      legend,
      (s) => s.name,
      () => {
        const swatch = el("i");
        const text = el("span");
        return { node: el("li", {}, swatch, text), swatch, text };
      },
      (row, s) => {
        setAttribute(row.swatch, "class", [s.color === undefined ? "" : `c-${s.color}`, s.kind ?? ""].join(" ").trim());
        row.swatch.style.background = s.fill ?? "";
        setText(row.text, s.name);
      },
    );
    setVisible(this.legend, legend.length > 0);
    this.resize();
    this.tabulate();
  }

  // resize draws again for a width in pixels, that of the place unless another one is given.
  resize(width = Math.round(this.plot.clientWidth)) {
    if (this.data && width) this.plot.replaceChildren(this.render(width));
  }

  tabulate() {
    if (!this.behind.open || !this.data) return;
    const [heads, ...lines] = this.rows();
    this.table.replaceChildren(
      el(
        "table",
        {},
        el("caption", { class: "unseen" }, this.title),
        el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h)))),
        el(
          "tbody",
          {},
          ...lines.map(([head, ...cells]) =>
            el("tr", {}, el("th", { scope: "row" }, head), ...cells.map((c) => el("td", {}, c))),
          ),
        ),
      ),
    );
  }
}
