// Base class of plots: a title, a legend, an SVG drawing that fills the available width, and a table of its values.
import { el, reconcile, setAttribute, setText, setVisible } from "./dom.js";

// Figure is the base class. A subclass implements render(width), which returns the drawing, and rows(), which returns
// the table as [heads, ...lines], lists of strings. data.legend is a list of {name, color, kind, fill, value}: a color
// in charts.css, an additional class of the swatch, a CSS color that is not in a style sheet, and a text after the name.
export class Figure {
  constructor(id, title, about, heading = "h3") {
    this.title = title;
    this.legend = el("ul", { class: "legend" });
    this.plot = el("div", { class: "plot" });
    this.readout = el("p", { class: "readout small", "aria-hidden": "true" });
    this.table = el("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": `Table of ${title}` });
    this.details = el("details", { ontoggle: () => this.tabulate() }, el("summary", {}, "Table"), this.table);
    this.node = el(
      "section",
      { class: "chart", "aria-labelledby": `${id}-title`, id },
      el(heading, { id: `${id}-title` }, title),
      el("p", { class: "small" }, about),
      this.legend,
      this.plot,
      this.readout,
      this.details,
    );
    new ResizeObserver(() => this.resize()).observe(this.plot);
  }

  draw(data) {
    this.data = data;
    this.drawLegend(data.legend ?? []);
    this.resize();
    this.tabulate();
  }

  drawLegend(legend) {
    reconcile(
      this.legend,
      legend,
      (s) => s.name,
      () => {
        const swatch = el("i");
        const text = el("span");
        const value = el("b");
        return { node: el("li", {}, swatch, text, " ", value), swatch, text, value };
      },
      (row, s) => {
        setAttribute(row.swatch, "class", [s.color === undefined ? "" : `c-${s.color}`, s.kind ?? ""].join(" ").trim());
        row.swatch.style.background = s.fill ?? "";
        setText(row.text, s.name);
        setText(row.value, s.value ?? "");
      },
    );
    setVisible(this.legend, legend.length > 0);
  }

  // resize redraws for a width in pixels, by default the current width of the plot.
  resize(width = Math.round(this.plot.clientWidth)) {
    if (this.data && width) this.plot.replaceChildren(this.render(width));
  }

  tabulate() {
    if (!this.details.open || !this.data) return;
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
