// Finds the steps that contain a document.
import { get } from "./connection.js";
import { el, setAttribute, setText, setVisible } from "./dom.js";
import { startInDocument, count, documentName, plural } from "./format.js";

// Finder calls open(step, row) for the selected row.
export class Finder {
  constructor(open) {
    this.open = open;
    this.input = el("input", { id: "document", name: "document", autocomplete: "off", spellcheck: "false", placeholder: "id, path, or web/812", size: 24 });
    this.note = el("p", { class: "small", role: "status", id: "found-note" });
    this.list = el("ul", { class: "found", id: "found" });
    this.node = el("div", {}, el("form", { class: "ask", onsubmit: (e) => (e.preventDefault(), this.find()) },
      el("label", { for: "document" }, "Find a document"), this.input, el("button", { type: "submit" }, "Find")), this.note, this.list);
  }

  async find() {
    const query = this.input.value.trim();
    if (!query) return;
    this.list.replaceChildren();
    setAttribute(this.note, "class", "small");
    setText(this.note, `Searching for ${query}`);
    try {
      const found = await this.search(query);
      setText(this.note, found.length ? `${query} is in ${plural(found.length, "row")}:` : `No planned step contains ${query}.`);
      this.list.append(...found.map((f) => el("li", {}, el("button", { type: "button", onclick: () => this.open(f.step, f.row) }, `Step ${count(f.step)}, row ${f.row}`),
        el("span", { class: "small" }, ` ${f.pieces.map((p) => `${plural(p.length, "token")} of ${documentName(p)} from ${count(startInDocument(p))}`).join(", ")}`))));
    } catch (problem) {
      setAttribute(this.note, "class", "problem");
      setText(this.note, `${problem.message} ${problem.advice ?? ""}`);
    }
    setVisible(this.list, this.list.childElementCount > 0);
  }

  // search looks up the producer's id first. If no document has this id, a number is looked up as a stream sequence.
  async search(query) {
    const [, source, sequence] = /^(?:(.+)\/)?(\d+)$/.exec(query) ?? [];
    const byId = await get("api/find", { id: query });
    return byId.length || !sequence ? byId : get("api/find", { source, sequence });
  }
}
