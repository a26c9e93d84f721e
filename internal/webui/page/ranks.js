// Ranks by job: a heat map, and a table, largest lag first. Commits of jobs.
import { byId, el, reconcile, setAttribute, setText, setVisible, table } from "./dom.js";
import { bytes, count, daemonName, duration, elapsed, plural } from "./format.js";
import { HeatMap, drawScale, keyOf, missing, stateOf } from "./heatmap.js";

const few = 4; // ranks of a run whose table is open
const normalLag = 3; // steps; ranks do not request a step at the same time

let now = ""; // time of the status
let latest = null;
let worst = null; // the rank with the largest lag
let selected = null; // the cell under the pointer or with the focus
let all; // the table

// startRanks connects the switch between lag and wait, and the table.
export function startRanks() {
  const redraw = () => latest && updateRanks(latest);
  for (const choice of document.querySelectorAll("input[name=measure]")) choice.addEventListener("change", redraw);
  byId("ranks-table").addEventListener("toggle", redraw);
}

export function updateRanks(s) {
  latest = s;
  now = s.time;
  const jobs = new Map();
  for (const r of s.ranks ?? []) jobs.set(r.job, [...(jobs.get(r.job) ?? []), r]);
  setVisible(byId("ranks-none"), jobs.size === 0);
  const resizes = (s.resizes ?? []).map((r) => r.sentence);
  setText(byId("resizes"), resizes.join("; "));
  setVisible(byId("resizes"), resizes.length > 0);
  for (const id of ["ranks-scale", "ranks-measure", "rank", "ranks-table"]) setVisible(byId(id), jobs.size > 0);
  drawScale();
  reconcile(byId("jobs"), [...jobs], ([name]) => name, makeJob, (job, [name, ranks]) => updateJob(job, name, ranks, s));
  const ranks = [...(s.ranks ?? [])].sort((a, b) => missing(b) - missing(a) || b.lag - a.lag || b.wait_p99 - a.wait_p99 || a.rank - b.rank);
  worst = ranks[0];
  drawRank();
  updateTable(ranks.map((r) => ({ ...r, name: jobs.size > 1 ? `${r.job} ${nameOf(r)}` : nameOf(r) })));
  updateCommits(s);
}

function updateTable(ranks) {
  const details = byId("ranks-table");
  if (!all && ranks.length) {
    all = table("Ranks", columns, keyOf, (r) => (missing(r) ? "missing" : r.holds ? "holds" : ""));
    details.lastElementChild.append(all.node);
    details.open = ranks.length <= few;
  }
  if (details.open) all?.update(ranks);
}

function makeJob() {
  const title = el("h3");
  const held = el("p", { class: "held" });
  const map = new HeatMap((cell) => {
    selected = cell;
    drawRank();
  });
  return { title, held, map, node: el("div", { class: "job" }, el("div", { class: "headline" }, title, held), map.node) };
}

// drawRank shows the values of the selected rank, or of the one with the largest lag.
function drawRank() {
  const r = selected?.isConnected ? selected.rank : worst;
  const values = r ? [["Rank", nameOf(r)], ["Job", r.job], ...columns.slice(1).map((c) => [c.name, c.text(r)])] : [];
  reconcile(byId("rank"), values.filter(([, value]) => value), ([name]) => name, ([name]) => {
    const value = el("dd");
    return { node: el("div", {}, el("dt", {}, `${name}: `), value), value };
  }, (row, [, value]) => setText(row.value, value));
}

const nameOf = (r) => `${r.rank} of ${r.world}`;

const columns = [
  { name: "Rank", text: (r) => r.name, left: true },
  { name: "State", text: stateOf, left: true },
  { name: "Steps sent", text: (r) => count(r.sent_steps) },
  { name: "Consumed", about: "steps consumed by its trainer; - if its client does not report", text: (r) => (r.unit === "sent" ? "-" : count(r.consumed)) },
  { name: "Lag", about: "steps behind the most advanced rank of its job", text: (r) => (r.lag ? plural(r.lag, "step") : "0") },
  { name: "Wait, median", about: "for a step, in the last minute", text: (r) => duration(r.wait_p50) },
  { name: "Wait, p99", about: "for a step, 99th percentile of the last minute", text: (r) => duration(r.wait_p99) },
  { name: "Sent", about: "bytes per second, over the last ten seconds", text: (r) => `${bytes(r.bytes)}/s` },
  { name: "Daemon", text: (r) => daemonName(r.daemon), left: true },
  { name: "Client", text: (r) => (r.identity ? `${r.identity}, ${r.address}` : r.address), left: true },
  { name: "Connected for", text: (r) => elapsed(r.since, now) },
];

function updateJob(job, name, ranks, s) {
  const most = Math.max(...ranks.map((r) => r.lag));
  const holders = ranks.filter((r) => most > normalLag && r.lag === most);
  ranks.forEach((r) => (r.holds = holders.includes(r)));
  const front = Math.max(...ranks.map((r) => r.consumed));
  const blocked = (s.jobs ?? []).filter((j) => j.job === name && j.sentence);
  const omitted = s.ranks_total > s.ranks.length ? ` (those with the largest lag of ${count(s.ranks_total)})` : "";
  const since = (s.jobs ?? []).find((j) => j.job === name && j.since_step !== undefined);
  const agreed = since ? ` since step ${count(since.since_step)}` : "";
  setText(job.title, `${name ? `Job ${name}` : "Ranks"}: ${plural(ranks.length, "rank")}${agreed}${omitted}, ${plural(front, "step")} consumed`);
  setText(job.held, blocked.length ? blocked.map((j) => j.sentence).join("; ") : holders.length ? lagSentence(holders, most) : "");
  setAttribute(job.held, "data-failing", blocked.some((j) => j.failing) ? "" : null);
  setVisible(job.held, blocked.length + holders.length > 0);
  const label = `${plural(ranks.length, "rank")}. ${job.held.textContent || "No rank is lagging."} Arrow keys move between ranks.`;
  job.map.draw([...ranks].sort((a, b) => a.rank - b.rank), label);
}

// lagSentence names the ranks with the largest lag: rank 3, or ranks 3, 4 and 2 more.
function lagSentence(holders, most) {
  const numbers = holders.map((r) => r.rank);
  const beyond = numbers.length - 4;
  const list = beyond > 0 ? `${numbers.slice(0, 4).join(", ")} and ${beyond} more` : numbers.join(", ");
  return `${numbers.length > 1 ? `Ranks ${list} hold` : `Rank ${list} holds`} the others (${plural(most, "step")} behind)`;
}

let commits; // the table, and whether it has the column of skipped steps
let hasSkips;

const commitColumns = [
  { name: "Job", text: (k) => k.job, left: true },
  { name: "Committed", about: "the job's checkpoint covers all steps before this one", text: (k) => `before step ${count(k.step)}` },
  { name: "Behind the plan", text: (k) => plural(Math.max(k.planned - k.step, 0), "step") },
];
const skippedColumn = { name: "Skipped", about: "steps before the committed one that the job has skipped", text: (k) => (k.skipped ? plural(k.skipped, "step") : "") };

function updateCommits(s) {
  const all = (s.commits ?? []).map((k) => ({ ...k, planned: s.planned_steps }));
  const skips = all.some((k) => k.skipped);
  if (!commits || skips !== hasSkips) {
    commits = table("Commits", skips ? [...commitColumns, skippedColumn] : commitColumns, (k) => k.job);
    hasSkips = skips;
    byId("commits").replaceChildren(el("p", { class: "small" }), commits.node);
  }
  setText(byId("commits").firstElementChild, all.length ? "" : "No job has committed a step.");
  setVisible(commits.node, all.length > 0);
  commits.update(all);
}
