// Entry point of the report of compare. Draws the plots from the JSON in the page.
import { byId } from "./dom.js";
import { figures } from "./figures.js";

const printWidth = 320; // pixels of a plot on paper, for two columns on A4

const drawn = figures(JSON.parse(byId("report").textContent)).map(({ id, title, about, kind, data }, i) => {
  const figure = new kind(id, title, about, "h2");
  byId(i === 0 ? "first" : "figures").append(figure.node);
  figure.draw(data);
  return figure;
});
addEventListener("beforeprint", () => drawn.forEach((f) => f.resize(printWidth)));
addEventListener("afterprint", () => drawn.forEach((f) => f.resize()));
document.documentElement.dataset.figures = drawn.length;
