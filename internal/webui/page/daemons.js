// The daemons of the run, with the leader and its term.
import { byId, el, table } from "./dom.js";
import { bytes, count, daemonName, duration } from "./format.js";

const lateHeartbeat = 5; // seconds without a heartbeat after which a row is highlighted

let all;

export function updateDaemons(s) {
  if (!all) {
    all = table("Daemons", columns, (d) => d.name, (d) => (d.silent_seconds > lateHeartbeat ? "waiting" : d.leads ? "best" : ""));
    byId("daemons").append(all.node);
  }
  all.update((s.daemons ?? []).map((d) => ({ ...d, here: d.name === s.daemon })));
}

const columns = [
  { name: "Daemon", left: true, cell: nameCell },
  { name: "Role", left: true, text: (d) => (d.leads ? `leader, term ${count(d.term ?? 0)}` : "follower") },
  { name: "Ranks", text: (d) => count(d.ranks) },
  { name: "Sent", text: (d) => `${bytes(d.bytes)}/s` },
  { name: "Last heartbeat", text: (d) => (d.here ? "connected" : `${duration(d.silent_seconds)} ago`) },
  { name: "Version", text: (d) => d.version ?? "", left: true },
  { name: "Flight", text: (d) => d.flight ?? "", left: true },
];

// nameCell fills the cell with a daemon's name and a link to its page. Only HTTP addresses become links.
function nameCell(cell, d) {
  const web = /^https?:\/\//.test(d.http ?? "") && !d.here;
  const key = `${d.name} ${web ? d.http : ""} ${d.here}`;
  if (cell.dataset.is === key) return;
  cell.dataset.is = key;
  cell.replaceChildren(web ? el("a", { href: d.http, rel: "noreferrer", title: d.name }, daemonName(d.name)) : el("span", { title: d.name }, daemonName(d.name)), d.here ? el("span", { class: "small" }, " (this page)") : "");
}
