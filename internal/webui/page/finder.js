// Which steps hold a document.
import { get } from "./connection.js";
import { el, mark, say, show } from "./dom.js";
import { begins, count, named, several } from "./format.js";

// Finder calls open(step, row) for the row that was chosen.
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
    const asked = this.input.value.trim();
    if (!asked) return;
    this.list.replaceChildren();
    mark(this.note, "class", "small");
    say(this.note, `Looking for ${asked}`);
    try {
      const found = await this.look(asked);
      say(this.note, found.length ? `${asked} is in ${several(found.length, "row")}:` : `No step holds ${asked} yet.`);
      this.list.append(...found.map((f) => el("li", {}, el("button", { type: "button", onclick: () => this.open(f.step, f.row) }, `Step ${count(f.step)}, row ${f.row}`),
        el("span", { class: "small" }, ` ${f.pieces.map((p) => `${several(p.length, "token")} of ${named(p)} from ${count(begins(p))}`).join(", ")}`))));
    } catch (problem) {
      mark(this.note, "class", "problem");
      say(this.note, `${problem.message} ${problem.advice ?? ""}`);
    }
    show(this.list, this.list.childElementCount > 0);
  }

  // look asks by the producer's id first; what looks like a sequence and is no id is asked for as one.
  async look(asked) {
    const [, source, sequence] = /^(?:(.+)\/)?(\d+)$/.exec(asked) ?? [];
    const byId = await get("api/find", { id: asked });
    return byId.length || !sequence ? byId : get("api/find", { source, sequence });
  }
}
