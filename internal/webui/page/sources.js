// Sources, with actual and target shares of tokens.
import { byId, el, setAttribute, setText, setVisible, table } from "./dom.js";
import { count, percent, short, elapsed } from "./format.js";

let all;
let now = "";

export function updateSources(s) {
  const sources = s.sources ?? [];
  setVisible(byId("sources-section"), sources.length > 1);
  if (sources.length < 2) return;
  now = s.time;
  setText(byId("share-unit"), shareUnit(s));
  if (!all) {
    all = table("Sources", columns, (x) => x.name, (x) => (x.down_since ? "failing" : dry(x) ? "waiting" : ""));
    byId("sources").append(all.node);
  }
  const most = Math.max(...sources.map((x) => Math.max(x.recent_share ?? 0, x.target)), 0.01);
  all.update(sources.map((x, i) => ({ ...x, i, most })));
}

// shareUnit names what the shares of a status or of a history are shares of.
export const shareUnit = (s) => (s.share_unit === "loss_tokens" ? "tokens with a loss" : "tokens");

const dryAfter = 5; // seconds; shorter gaps between documents are normal

const columns = [
  { name: "Source", left: true, cell: nameCell },
  { name: "Last steps", left: true, cell: shareCell },
  { name: "Target", text: (x) => percent(x.target) },
  { name: "Overall", about: "share of everything so far", text: (x) => share(x.share) },
  { name: "Tokens", about: "tokens so far", text: (x) => short(x.tokens) },
  { name: "Epoch", text: (x) => `${x.epoch + 1} ${x.epochs === "forever" ? "(unlimited)" : `of ${x.epochs}`}` },
  { name: "Left", about: "stored documents that the planner has not accepted in this epoch", text: (x) => (x.next && x.stored >= x.next ? count(x.stored - x.next + 1) : "0") },
  { name: "State", left: true, text: state },
];

function nameCell(cell, x) {
  if (!cell.firstElementChild) cell.append(el("i", { class: "swatch" }), el("span"));
  setAttribute(cell.firstElementChild, "class", `swatch c-${x.i % 8}`);
  setText(cell.lastElementChild, x.name);
}

function shareCell(cell, x) {
  if (!cell.firstElementChild) cell.append(el("div", { class: "share", "aria-hidden": "true" }, el("i"), el("b")), el("span"));
  const [bar, text] = cell.children;
  setAttribute(bar.firstElementChild, "class", `c-${x.i % 8}`);
  bar.firstElementChild.style.width = `${((100 * (x.recent_share ?? 0)) / x.most).toFixed(1)}%`;
  bar.lastElementChild.style.left = `${((100 * x.target) / x.most).toFixed(1)}%`;
  setText(text, share(x.recent_share));
}

// share formats a share, which is null before the first step.
const share = (v) => (v == null ? "–" : percent(v));

const dry = (x) => x.dry_since && !x.exhausted && !x.removed && Date.parse(now) - Date.parse(x.dry_since) > dryAfter * 1000;

function state(x) {
  const bad = x.undecodable ? `, ${count(x.undecodable)} documents undecodable` : "";
  if (x.removed) return `removed${bad}`;
  if (x.down_since) return `unreachable for ${elapsed(x.down_since, now)}${bad}`;
  if (x.exhausted) return `exhausted${bad}`;
  if (dry(x)) return `dry for ${elapsed(x.dry_since, now)}${bad}`;
  if (x.paused) return `paused${bad}`;
  return `${x.sealed ? "sealed" : "open"}${bad}`;
}
