// The step inspector: the spans of a step's rows to scale, the origin and text of a document, and a document search.
import { get } from "./connection.js";
import { copyable } from "./copy.js";
import { el, setAttribute, setText, setVisible } from "./dom.js";
import { plural } from "./format.js";
import { Finder } from "./finder.js";
import { Origin } from "./origin.js";
import { Rows } from "./rows.js";

const defaultFlight = "grpc://127.0.0.1:8815"; // of the command line

// Inspector adds itself to host. may() returns the actions that the caller may request, status() the newest status.
export class Inspector {
  constructor(host, may, status) {
    this.may = may;
    this.status = status;
    this.input = el("input", { id: "step", name: "step", inputmode: "numeric", autocomplete: "off", size: 10, pattern: "[0-9]*" });
    this.note = el("p", { class: "small", role: "status", id: "step-note" });
    this.origin = new Origin(may, () => status()?.sources ?? []);
    this.rows = new Rows((piece, chosen) => this.origin.show(piece, this.step, chosen), () => (status()?.sources ?? []).map((s) => s.name));
    this.command = copyable();
    const by = (n) => () => this.open((this.step?.step ?? this.newest()) + n);
    const form = el("form", { class: "ask", onsubmit: (e) => (e.preventDefault(), this.open(Number(this.input.value.replace(/[^0-9]/g, "")))) },
      el("label", { for: "step" }, "Step"), this.input, el("button", { type: "submit" }, "Show"),
      el("button", { type: "button", onclick: by(-1), "aria-label": "Previous step" }, "‹"),
      el("button", { type: "button", onclick: by(1), "aria-label": "Next step" }, "›"),
      el("button", { type: "button", onclick: () => this.open(this.newest()) }, "Newest"));
    this.finder = new Finder((step, row) => this.open(step, row));
    this.answer = el("div", { hidden: true }, this.rows.node, this.origin.node, this.command.node);
    this.forbidden = el("p", { class: "small", hidden: true }, "Inspecting steps needs the role operate.");
    this.forms = el("div", { class: "asks" }, form, this.finder.node);
    host.append(this.forbidden, this.forms, this.note, this.answer);
  }

  // flight returns the --daemon flag for this daemon, or nothing for the default address.
  flight() {
    const s = this.status();
    const uri = (s?.daemons ?? []).find((d) => d.name === s.daemon)?.flight ?? "";
    return /^grpc(\+tls)?:\/\/[\w.:[\]-]+$/.test(uri) && uri !== defaultFlight ? ` --daemon ${uri}` : "";
  }

  newest() {
    return Math.max((this.status()?.planned_steps ?? 1) - 1, 0);
  }

  // update shows the parts that the caller may use.
  update() {
    const may = this.may().includes("ledger");
    setVisible(this.forbidden, !may);
    setVisible(this.forms, may);
    setVisible(this.finder.node, this.may().includes("find"));
    if (!may) setVisible(this.answer, false);
  }

  // open shows a step, and moves the focus to one of its rows if row is given.
  async open(step, row) {
    if (!Number.isSafeInteger(step) || step < 0) return;
    this.input.value = String(step);
    const requested = (this.requested = step);
    setText(this.note, `Loading step ${step}`);
    setAttribute(this.note, "class", "small");
    try {
      const found = await get(`api/step/${step}`, { documents: "true" });
      if (requested !== this.requested) return; // another step was requested meanwhile
      this.step = found;
      const pieces = found.rows.reduce((n, r) => n + r.length, 0);
      setText(this.note, `Step ${found.step}: ${plural(found.rows.length, "row")} of ${found.bucket} tokens, ${plural(pieces, "span")}. Arrow keys move between spans, Enter opens one.`);
      this.origin.clear();
      setVisible(this.answer, true);
      this.rows.draw(found, row);
      this.command.setText(`loaderd ledger --step ${found.step} --documents${this.flight()}`);
    } catch (problem) {
      if (requested !== this.requested) return;
      setVisible(this.answer, false);
      setAttribute(this.note, "class", "problem");
      setText(this.note, `${problem.message} ${problem.advice ?? ""}`);
    }
  }
}
