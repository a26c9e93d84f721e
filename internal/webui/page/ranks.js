// Ranks by job: a strip that shows the lag of each rank, and a table, largest lag first. Commits below.
import { byId, el, reconcile, setAttribute, setText, setVisible, table } from "./dom.js";
import { bytes, count, daemonName, duration, plural, elapsed } from "./format.js";

const few = 8; // rows of a collapsed table
const normalLag = 3; // steps; ranks do not request a step at the same time
const maxNumbered = 32; // ranks of a strip that shows their numbers

let now = ""; // time of the status

export function updateRanks(s) {
  now = s.time;
  const jobs = new Map();
  for (const r of s.ranks ?? []) jobs.set(r.job, [...(jobs.get(r.job) ?? []), r]);
  setVisible(byId("ranks-none"), jobs.size === 0);
  reconcile(byId("jobs"), [...jobs], ([name]) => name, makeJob, (job, [name, ranks]) => updateJob(job, name, ranks, s));
  updateCommits(s);
}

function makeJob([name]) {
  const title = el("h3");
  const held = el("p", { class: "held" });
  const strip = el("div", { class: "strip", role: "img" });
  const all = table(`Ranks of job ${name}`, columns, (r) => `${r.rank} ${r.daemon} ${r.address}`, (r) => (missing(r) ? "missing" : r.holds ? "holds" : ""));
  const more = el("button", { type: "button", class: "plain" });
  const job = { all, more, title, held, strip, open: false };
  more.addEventListener("click", () => {
    job.open = !job.open;
    job.redraw();
  });
  const scroll = el("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": `Table of the ranks of job ${name}` }, all.node);
  job.node = el("div", { class: "job" }, title, held, strip, scroll, more);
  return job;
}

const missing = (r) => r.state !== "reading";

const columns = [
  { name: "Rank", text: (r) => `${r.rank} of ${r.world}`, left: true },
  { name: "State", text: (r) => (missing(r) ? `${r.state}, ${duration(r.state_seconds)}` : r.state), left: true },
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
  job.redraw = () => updateJob(job, name, ranks, s);
  const most = Math.max(...ranks.map((r) => r.lag));
  const holders = ranks.filter((r) => most > normalLag && r.lag === most);
  ranks.forEach((r) => (r.holds = holders.includes(r)));
  const front = Math.max(...ranks.map((r) => r.consumed));
  const blocked = (s.jobs ?? []).filter((j) => j.job === name && j.sentence);
  const omitted = s.ranks_total > s.ranks.length ? ` (those with the largest lag of ${count(s.ranks_total)})` : "";
  setText(job.title, `${name ? `Job ${name}` : "Ranks"}: ${plural(ranks.length, "rank")}${omitted}, the most advanced has consumed ${plural(front, "step")}`);
  setText(job.held, blocked.length ? blocked.map((j) => j.sentence).join("; ") : holders.length ? lagSentence(holders, most) : "");
  setAttribute(job.held, "data-failing", blocked.some((j) => j.failing) ? "" : null);
  setVisible(job.held, blocked.length + holders.length > 0);
  const inOrder = [...ranks].sort((a, b) => a.rank - b.rank);
  setAttribute(job.strip, "aria-label", `${plural(ranks.length, "rank")}. ${job.held.textContent || "No rank is lagging."} The table below has the details.`);
  setAttribute(job.strip, "data-many", ranks.length > maxNumbered ? "" : null);
  reconcile(job.strip, inOrder, (r) => `${r.rank} ${r.daemon} ${r.address}`, makeCell, (cell, r) => updateCell(cell, r, most));
  const worst = [...ranks].sort((a, b) => missing(b) - missing(a) || b.lag - a.lag || b.wait_p99 - a.wait_p99 || a.rank - b.rank);
  job.all.update(job.open ? worst : worst.slice(0, few));
  setVisible(job.more, ranks.length > few);
  setText(job.more, job.open ? `Show the ${few} with the largest lag` : `Show all ${count(ranks.length)} ranks`);
  setAttribute(job.more, "aria-expanded", String(job.open));
}

// lagSentence names the ranks with the largest lag: rank 3, or ranks 3, 4 and 2 more.
function lagSentence(holders, most) {
  const numbers = holders.map((r) => r.rank);
  const beyond = numbers.length - 4;
  const list = beyond > 0 ? `${numbers.slice(0, 4).join(", ")} and ${beyond} more` : numbers.join(", ");
  return `${numbers.length > 1 ? `Ranks ${list} hold` : `Rank ${list} holds`} the others (${plural(most, "step")} behind)`;
}

function makeCell() {
  const fill = el("i");
  const label = el("span");
  return { node: el("div", { class: "cell" }, fill, label), fill, label };
}

// updateCell fills the cell of a rank: full for the most advanced rank, lower for a larger lag.
function updateCell(cell, r, most) {
  cell.fill.style.height = `${(100 - (85 * r.lag) / Math.max(most, 8)).toFixed(1)}%`;
  setText(cell.label, missing(r) ? `${r.rank} ✕` : String(r.rank));
  setAttribute(cell.node, "data-holds", r.holds ? "" : null);
  setAttribute(cell.node, "data-missing", missing(r) ? "" : null);
  setAttribute(cell.node, "title", `rank ${r.rank} of ${r.world}: ${r.state}, ${plural(r.consumed, "step")} ${r.unit === "sent" ? "sent" : "consumed"}, ${plural(r.lag, "step")} behind, wait p99 ${duration(r.wait_p99)}, daemon ${daemonName(r.daemon)}`);
}

let commits;

function updateCommits(s) {
  if (!commits) {
    commits = table("Commits", [
      { name: "Job", text: (k) => k.job, left: true },
      { name: "Committed", about: "the job's checkpoint covers all steps before this one", text: (k) => `before step ${count(k.step)}` },
      { name: "Behind the plan", text: (k) => plural(Math.max(k.planned - k.step, 0), "step") },
    ], (k) => k.job);
    byId("commits").append(el("p", { class: "small" }), commits.node);
  }
  const all = (s.commits ?? []).map((k) => ({ ...k, planned: s.planned_steps }));
  setText(byId("commits").firstElementChild, all.length ? "" : "No job has committed a step.");
  setVisible(commits.node, all.length > 0);
  commits.update(all);
}
