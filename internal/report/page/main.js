// The report of compare: draws the figures of the JSON in this page.
import { byId } from "./dom.js";
import { figures } from "./figures.js";

const printed = 320; // pixels of a drawing on paper: two columns of a page of A4

const drawn = figures(JSON.parse(byId("report").textContent)).map(({ id, title, about, kind, data }, i) => {
  const figure = new kind(id, title, about, "h2");
  byId(i === 0 ? "first" : "figures").append(figure.node);
  figure.draw(data);
  return figure;
});
addEventListener("beforeprint", () => drawn.forEach((f) => f.resize(printed)));
addEventListener("afterprint", () => drawn.forEach((f) => f.resize()));
document.documentElement.dataset.figures = drawn.length;
