// Dead letters by reason, with the newest of each.
import { byId, el, keyed, say } from "./dom.js";
import { clock, count, named, several } from "./format.js";

export function updateDead(s) {
  const dead = s.dead_letters ?? { total: 0, waiting: 0, reasons: [] };
  const waits = dead.waiting ? ` ${count(dead.waiting)} more wait to be stored.` : "";
  say(byId("dead-note"), (dead.total ? `${several(dead.total, "document")} could not be decoded. loaderd dlq lists, shows and publishes them again.` : "There are none.") + waits);
  const reasons = dead.reasons ?? [];
  const most = Math.max(...reasons.map((r) => r.letters), 1);
  keyed(byId("dead"), reasons, (r) => r.reason, make, (row, r) => {
    say(row.letters, count(r.letters));
    row.fill.style.width = `${((100 * r.letters) / most).toFixed(1)}%`;
    keyed(row.samples, r.samples ?? [], (x) => x.letter, makeSample, (sample, x) => {
      say(sample.what, `Document ${named(x)}`);
      say(sample.rest, ` ${x.problem} (${x.subject}, letter ${x.letter}, ${clock(x.time, s.time)})`);
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
