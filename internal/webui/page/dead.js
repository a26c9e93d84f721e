// The dead-letter queue by reason, with the newest dead letters of each reason.
import { byId, el, reconcile, setText } from "./dom.js";
import { clock, count, documentName, plural } from "./format.js";

export function updateDead(s) {
  const dead = s.dead_letters ?? { total: 0, waiting: 0, reasons: [] };
  const unstored = dead.waiting ? ` ${count(dead.waiting)} more not stored yet.` : "";
  setText(byId("dead-note"), (dead.total ? `${plural(dead.total, "document")} could not be decoded. Use loaderd dlq to list, show and republish them.` : "No dead letters.") + unstored);
  const reasons = dead.reasons ?? [];
  const most = Math.max(...reasons.map((r) => r.letters), 1);
  reconcile(byId("dead"), reasons, (r) => r.reason, make, (row, r) => {
    setText(row.letters, count(r.letters));
    row.fill.style.width = `${((100 * r.letters) / most).toFixed(1)}%`;
    reconcile(row.samples, r.samples ?? [], (x) => x.letter, makeSample, (sample, x) => {
      setText(sample.what, `Document ${documentName(x)}`);
      setText(sample.rest, ` ${x.problem} (${x.subject}, letter ${x.letter}, ${clock(x.time, s.time)})`);
    });
  });
}

function make(r) {
  const letters = el("b");
  const fill = el("i");
  const samples = el("ul");
  return { node: el("li", {}, el("h3", {}, letters, ` ${r.reason}`), el("div", { class: "bar warn", "aria-hidden": "true" }, fill), samples), letters, fill, samples };
}

function makeSample() {
  const what = el("b");
  const rest = el("span");
  return { node: el("li", {}, what, rest), what, rest };
}
