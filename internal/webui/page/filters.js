// Filters in effect, and the documents that they have rejected, by source.
import { byId, setText, setVisible, table } from "./dom.js";
import { count, plural } from "./format.js";

let all;

export function updateFilters(s) {
  const filters = s.filters ?? [];
  setVisible(byId("filters-section"), filters.length > 0);
  if (!filters.length) return;
  if (!all) {
    all = table("Filters", columns, (x) => x.source);
    byId("filters").append(all.node);
  }
  all.update(filters);
  const hidden = (s.filters_total ?? 0) - filters.length;
  setVisible(byId("filters-rest"), hidden > 0);
  setText(byId("filters-rest"), `${plural(hidden, "more source")} with fewer filtered documents: loaderd filter shows all.`);
}

const columns = [
  { name: "Documents of", left: true, text: (x) => x.source || "all sources" },
  { name: "Filtered", about: "documents that this filter or that of all sources has rejected", text: (x) => count(x.documents) },
  { name: "Used if", left: true, text: (x) => x.where || "no filter" },
];
