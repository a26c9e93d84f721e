// The daemons of the run, and which of them leads.
import { byId, el, setText, table } from "./dom.js";
import { bytes, count, daemonName, duration } from "./format.js";

const quiet = 5; // seconds of silence that are worth a look

let all;

export function updateDaemons(s) {
  if (!all) {
    all = table("Daemons", columns, (d) => d.name, (d) => (d.silent_seconds > quiet ? "waiting" : d.leads ? "best" : ""));
    byId("daemons").append(all.node);
  }
  all.update((s.daemons ?? []).map((d) => ({ ...d, here: d.name === s.daemon })));
}

const columns = [
  { name: "Daemon", left: true, cell: nameCell },
  { name: "Leads", left: true, text: (d) => (d.leads ? `leads, term ${count(d.term ?? 0)}` : "follows") },
  { name: "Ranks", text: (d) => count(d.ranks) },
  { name: "Sent", text: (d) => `${bytes(d.bytes)}/s` },
  { name: "Heard", about: "when it was heard last", text: (d) => (d.here ? "answers" : `${duration(d.silent_seconds)} ago`) },
  { name: "Version", text: (d) => d.version ?? "", left: true },
  { name: "Flight", text: (d) => d.flight ?? "", left: true },
];

// nameCell names a daemon and leads to its page. An address is followed only where it is one of the web.
function nameCell(cell, d) {
  const web = /^https?:\/\//.test(d.http ?? "") && !d.here;
  const key = `${d.name} ${web ? d.http : ""} ${d.here}`;
  if (cell.dataset.is === key) return;
  cell.dataset.is = key;
  cell.replaceChildren(web ? el("a", { href: d.http, rel: "noreferrer", title: d.name }, daemonName(d.name)) : el("span", { title: d.name }, daemonName(d.name)), d.here ? el("span", { class: "small" }, " (this page)") : "");
}
