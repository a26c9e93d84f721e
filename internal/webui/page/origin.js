// Where a piece came from, and for who may see it the text of its document, cut at the borders of tokens.
import { get } from "./connection.js";
import { el, mark, say, show } from "./dom.js";
import { begins, bytes, count, named, several, since } from "./format.js";

const atOnce = 512; // tokens of a text that are asked for

// Origin shows pieces; may() are the names of the actions that whoever looks may ask for.
export class Origin {
  constructor(may, sources) {
    this.may = may;
    this.sources = sources;
    this.facts = el("dl", { class: "origin" });
    this.title = el("h3");
    this.words = el("p", { class: "text", tabindex: 0, role: "region", "aria-label": "Text of the piece, token by token" });
    this.note = el("p", { class: "small", role: "status" });
    this.more = el("button", { type: "button", onclick: () => this.read() }, "More of the text");
    this.text = el("div", { hidden: true }, this.words, this.note, this.more);
    this.node = el("div", { class: "about-piece", hidden: true }, this.title, this.facts, this.text);
  }

  clear() {
    this.chosen = null;
    show(this.node, false);
    show(this.text, false);
  }

  // show tells where a piece of a step came from. While one is chosen, those that the pointer passes change nothing.
  show(piece, step, chosen) {
    if (this.chosen && !chosen) return;
    const same = this.chosen === piece;
    const message = step.documents?.find((d) => d.sequence === piece.sequence && (d.source ?? "") === (piece.source ?? "")) ?? {};
    const document = piece.index === undefined ? message : { ...message, id: piece.id, weight: piece.weight, meta: piece.meta };
    say(this.title, `Row ${piece.row}: ${several(piece.length, "token")} of document ${named(piece)}, from token ${count(begins(piece))}`);
    const facts = [["Source", piece.source], ["Document", count(piece.sequence)], ["Id", document.id], ["Path", document.path], ["Subject", document.subject], ["Domain", document.domain],
      ["In its message", piece.index === undefined ? "" : `document ${count(piece.index)}, from 0`],
      ["With a loss", piece.loss_tokens === undefined ? "" : several(piece.loss_tokens, "token")],
      ["Weight", document.weight === undefined ? "" : String(document.weight)],
      ["Meta", document.meta ? JSON.stringify(document.meta) : ""],
      ["Kind", document.content_type], ["Size", document.bytes ? bytes(document.bytes) : ""], ["Age", age(piece, step, document, this.sources())]];
    this.facts.replaceChildren(...facts.filter(([, v]) => v).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
    show(this.node, true);
    if (!chosen || same) return;
    this.chosen = piece;
    this.open();
  }

  // open begins to read the text of the piece that was chosen.
  open() {
    show(this.text, true);
    this.words.replaceChildren();
    this.at = this.chosen.start;
    if (this.may().includes("text")) return this.read();
    mark(this.note, "class", "small");
    say(this.note, "Reading the text of documents needs the role operate.");
    show(this.words, false);
    show(this.more, false);
    return undefined;
  }

  async read() {
    const piece = this.chosen;
    const end = piece.start + piece.length;
    say(this.note, "Reading the text");
    mark(this.note, "class", "small");
    try {
      const t = await get("api/text", { source: piece.source, sequence: piece.sequence, start: this.at, tokens: Math.min(atOnce, end - this.at) });
      if (piece !== this.chosen) return;
      const tokens = t.tokens ?? [];
      this.words.append(...tokens.map((id, i) => token(id, t.texts?.[i], t.start + i)));
      this.at = t.start + tokens.length;
      const rest = tokens.length ? Math.max(end - this.at, 0) : 0;
      show(this.words, true);
      show(this.more, rest > 0);
      say(this.note, t.problem || t.skip || `${several(this.at - piece.start, "token")} of ${count(piece.length)} in this piece; the document has ${count(t.total_tokens)}.`);
    } catch (problem) {
      if (piece !== this.chosen) return;
      mark(this.note, "class", "problem");
      say(this.note, `${problem.message} ${problem.advice ?? ""}`);
      show(this.words, this.words.childElementCount > 0);
      show(this.more, false);
    }
  }
}

// token is one token of a text; what does not show is written as a sign.
function token(id, text, index) {
  const visible = text === undefined ? String(id) : text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥\t") || "∅";
  return el("span", { class: `token t${index % 2}`, title: `token ${count(index)}: id ${id}` }, visible);
}

// age is how old a document was when its step was planned, in documents where the run has one source, and since it was published.
function age(piece, step, document, sources) {
  const parts = [];
  const behind = sources.length === 1 ? step.cursor - (piece.sequence - sources[0].start + 1) : -1;
  if (behind >= 0) parts.push(`${several(behind, "document")} before its step was planned`);
  if (document.time && !document.time.startsWith("0001")) parts.push(`published ${since(document.time, new Date())} ago`);
  return parts.join(", ");
}
