// The origin of a span and, for callers with permission, the text of its document, divided into tokens.
import { get } from "./connection.js";
import { el, setAttribute, setText, setVisible } from "./dom.js";
import { startInDocument, bytes, count, documentName, plural, elapsed } from "./format.js";

const tokensPerRequest = 512;

// Origin shows a span. may() returns the actions that the caller may request, sources() the run's sources.
export class Origin {
  constructor(may, sources) {
    this.may = may;
    this.sources = sources;
    this.facts = el("dl", { class: "origin" });
    this.title = el("h3");
    this.words = el("p", { class: "text", tabindex: 0, role: "region", "aria-label": "Text of the span, divided into tokens" });
    this.note = el("p", { class: "small", role: "status" });
    this.more = el("button", { type: "button", onclick: () => this.read() }, "Show more text");
    this.text = el("div", { hidden: true }, this.words, this.note, this.more);
    this.node = el("div", { class: "about-piece", hidden: true }, this.title, this.facts, this.text);
  }

  clear() {
    this.chosen = null;
    setVisible(this.node, false);
    setVisible(this.text, false);
  }

  // show displays the origin of a span. While a span is selected, hovering over others has no effect.
  show(piece, step, chosen) {
    if (this.chosen && !chosen) return;
    const same = this.chosen === piece;
    const message = step.documents?.find((d) => d.sequence === piece.sequence && (d.source ?? "") === (piece.source ?? "")) ?? {};
    const document = piece.index === undefined ? message : { ...message, id: piece.id, weight: piece.weight, meta: piece.meta };
    setText(this.title, `Row ${piece.row}: ${plural(piece.length, "token")} of document ${documentName(piece)}, from token ${count(startInDocument(piece))}`);
    const facts = [["Source", piece.source], ["Document", count(piece.sequence)], ["Id", document.id], ["Path", document.path], ["Subject", document.subject], ["Domain", document.domain],
      ["Index in message", piece.index === undefined ? "" : count(piece.index)],
      ["Tokens with loss", piece.loss_tokens === undefined ? "" : plural(piece.loss_tokens, "token")],
      ["Weight", document.weight === undefined ? "" : String(document.weight)],
      ["Meta", document.meta ? JSON.stringify(document.meta) : ""],
      ["Content type", document.content_type], ["Size", document.bytes ? bytes(document.bytes) : ""], ["Age", age(piece, step, document, this.sources())]];
    this.facts.replaceChildren(...facts.filter(([, v]) => v).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
    setVisible(this.node, true);
    if (!chosen || same) return;
    this.chosen = piece;
    this.open();
  }

  // open starts reading the text of the selected span.
  open() {
    setVisible(this.text, true);
    this.words.replaceChildren();
    this.at = this.chosen.start;
    if (this.may().includes("text")) return this.read();
    setAttribute(this.note, "class", "small");
    setText(this.note, "Reading the text of documents needs the role operate.");
    setVisible(this.words, false);
    setVisible(this.more, false);
    return undefined;
  }

  async read() {
    const piece = this.chosen;
    const end = piece.start + piece.length;
    setText(this.note, "Loading the text");
    setAttribute(this.note, "class", "small");
    try {
      const t = await get("api/text", { source: piece.source, sequence: piece.sequence, start: this.at, tokens: Math.min(tokensPerRequest, end - this.at) });
      if (piece !== this.chosen) return;
      const tokens = t.tokens ?? [];
      this.words.append(...tokens.map((id, i) => token(id, t.texts?.[i], t.start + i)));
      this.at = t.start + tokens.length;
      const rest = tokens.length ? Math.max(end - this.at, 0) : 0;
      setVisible(this.words, true);
      setVisible(this.more, rest > 0);
      setText(this.note, t.problem || t.skip || `${plural(this.at - piece.start, "token")} of ${count(piece.length)} in this span; the document has ${count(t.total_tokens)}.`);
    } catch (problem) {
      if (piece !== this.chosen) return;
      setAttribute(this.note, "class", "problem");
      setText(this.note, `${problem.message} ${problem.advice ?? ""}`);
      setVisible(this.words, this.words.childElementCount > 0);
      setVisible(this.more, false);
    }
  }
}

// token returns the element of a token. Whitespace is shown as symbols.
function token(id, text, index) {
  const visible = text === undefined ? String(id) : text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥\t") || "∅";
  return el("span", { class: `token t${index % 2}`, title: `token ${count(index)}: id ${id}` }, visible);
}

// age formats a document's age when its step was planned, in documents (only for runs with one source), and the time
// since it was published.
function age(piece, step, document, sources) {
  const parts = [];
  const documents = sources.length === 1 ? step.cursor - (piece.sequence - sources[0].start + 1) : -1;
  if (documents >= 0) parts.push(`${plural(documents, "document")} when its step was planned`);
  if (document.time && !document.time.startsWith("0001")) parts.push(`published ${elapsed(document.time, new Date())} ago`);
  return parts.join(", ");
}
