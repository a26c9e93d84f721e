// The history of the run as groups of charts, over the whole run or its last minutes.
import { Chart } from "./chart.js";
import { byId, el, reconcile, setText, setVisible } from "./dom.js";
import { clock, count, percent, percentTick, short } from "./format.js";
import { shareUnit } from "./sources.js";
import { lengthsData, newLengths } from "./lengths.js";

const maxSources = 8; // in a chart
const height = 140; // pixels of a chart
const groups = [
  ["Throughput", ["speed", "documents", "waiting", "steps"]],
  ["Mixture and packing", ["shares", "buckets", "padding", "split"]],
  ["Ages and lengths", ["age", "lengths", "corpus"]],
];

const charts = new Map(); // by id
let lengths;
let latest = null;

export function updateHistory(h) {
  latest = h;
  render();
}

// startHistory connects the switch between the whole run and the last minutes.
export function startHistory() {
  for (const choice of document.querySelectorAll("input[name=span]")) choice.addEventListener("change", render);
}

function render() {
  const h = latest;
  if (!h) return;
  const recent = document.querySelector("input[name=span]:checked")?.value === "late";
  const steps = withoutNulls((recent ? h.recent_steps : h.steps) ?? {});
  const times = (recent ? h.recent_times : h.times) ?? {};
  const list = [...byStep(h, steps), ...byTime(times), { id: "chart-corpus" }];
  reconcile(byId("charts"), groups, ([name]) => name, makeGroup, (group, [, ids]) => {
    const shown = ids.flatMap((id) => list.filter((c) => c.id === `chart-${id}`));
    reconcile(group.grid, shown, (c) => c.id, makeChart, (chart, c) => (c.data ? chart.draw({ height, ...c.data }) : undefined));
  });
  lengths.draw({ height, ...lengthsData(h.lengths ?? []) });
  const note = byId("history-note");
  const planned = steps.first?.length ? steps.first.at(-1) + steps.steps.at(-1) : 0;
  const partial = h.known_steps < planned;
  setVisible(note, partial);
  setText(note, partial ? `This daemon has read ${count(h.known_steps)} steps of the plan so far. The charts are incomplete.` : "");
  reconcile(byId("marks"), [...(h.marks ?? [])].reverse(), (m) => `${m.step} ${m.kind} ${m.text}`, (m) => ({ node: el("li", {}, el("b", {}, `Step ${count(m.step)}`), ` ${m.text}`) }), () => {});
  setVisible(byId("marks-section"), (h.marks ?? []).length > 0);
}

function makeGroup([name]) {
  const grid = el("div", { class: "charts" });
  return { node: el("details", { open: name === groups[0][0] }, el("summary", {}, el("h3", {}, name)), grid), grid };
}

// makeChart creates a chart that shares its pointer with the charts of the same axis.
function makeChart({ id, title, about, data }) {
  if (!data) return (lengths = newLengths());
  const peers = () => [...charts.values()].filter((c) => c.data?.xKind === data.xKind);
  charts.set(id, new Chart(id, title, about, "h4", peers));
  return charts.get(id);
}

// withoutNulls replaces null with an empty list. The daemon sends null for lists without entries.
const withoutNulls = (s) => ({ ...s, ...Object.fromEntries(["buckets", "sources", "targets"].map((k) => [k, (s[k] ?? []).map((list) => list ?? [])])) });

const ratio = (a, b) => a.map((v, i) => (b[i] ? v / b[i] : null));
const sum = (lists) => lists.reduce((all, list) => list.map((v, i) => (all[i] ?? 0) + v), []);

// byStep returns the charts over steps as {id, title, about, data}.
function byStep(h, s) {
  const x = s.first ?? [];
  const axis = { x, xEnd: x.length ? x.at(-1) + s.steps.at(-1) : 0, xKind: "step", xText: count, marks: (h.marks ?? []).map((m) => ({ x: m.step, text: m.text })) };
  const shares = { ...axis, yText: percent, yTick: percentTick, low: 0 };
  const out = [];
  if (s.sources?.length && h.sources?.length > 1) {
    out.push({ id: "chart-shares", title: "Shares of sources", about: "Shares of the " + shareUnit(h) + " in steps. Dashed: targets. Vertical lines: changes to the run.", data: { ...shares, series: shareSeries(h.sources, s) } });
  }
  const rows = s.buckets ?? [];
  const total = sum(rows);
  out.push({ id: "chart-buckets", title: "Buckets", about: "Share of steps by row length, in tokens.", data: { ...shares, stacked: true, high: 1,
    series: (h.buckets ?? []).map((b, i) => ({ name: count(b), color: i % 8, values: ratio(rows[i] ?? [], total).map((v) => v ?? 0) })) } });
  out.push({ id: "chart-padding", title: "Padding and continued spans", about: "Padding as a share of the rows' tokens. Spans that continue a split document, as a share of all spans.", data: { ...shares, atLeast: 0.01,
    series: [{ name: "padding", color: 0, values: ratio((s.slots ?? []).map((v, i) => v - s.tokens[i]), s.slots ?? []) },
      { name: "continued spans", color: 1, values: ratio(s.continued ?? [], s.pieces ?? []) }] } });
  out.push({ id: "chart-age", title: "Ages", about: "Age in later documents: of the oldest document that is not yet in a step, and of the oldest document in the step.", data: { ...axis, yText: short, low: 0,
    series: [{ name: "oldest buffered", color: 1, values: s.waits ?? [] }, ...(s.age?.length ? [{ name: "oldest in the step", color: 0, values: s.age }] : [])] } });
  out.push({ id: "chart-lengths", title: "Lengths by step", about: "Span lengths of each step in tokens: 90th, 50th and 10th percentile.", data: { ...axis, yText: short, log: 2,
    series: [["p90", 3, s.length_p90], ["median", 0, s.length_p50], ["p10", 2, s.length_p10]].map(([name, color, values]) => ({ name, color, values: values ?? [] })) } });
  return out;
}

// shareSeries returns the shares of sources with their targets. Of many sources, it returns those furthest from their
// targets.
function shareSeries(names, s) {
  const total = sum(s.sources);
  const all = names.map((name, i) => {
    const values = ratio(s.sources[i] ?? [], total);
    const targets = s.targets?.[i] ?? [];
    return { name, i, values, targets, off: Math.max(0, ...values.map((v, k) => Math.abs((v ?? 0) - (targets[k] ?? 0)))) };
  });
  const kept = all.length > maxSources ? [...all].sort((a, b) => b.off - a.off).slice(0, maxSources).sort((a, b) => a.i - b.i) : all;
  return kept.flatMap((x) => [{ name: x.name, color: x.i % 8, values: x.values }, { name: `${x.name}, target`, color: x.i % 8, values: x.targets, dashed: true }]);
}

// byTime returns the charts over time.
function byTime(t) {
  const x = (t.at ?? []).map((a) => Date.parse(a));
  const span = x.length > 1 ? x.at(-1) - x[0] : 0;
  const axis = { x, xKind: "time", xText: (v) => (span > 86400000 ? clock(v, 0).slice(5, 16) : clock(v, v).slice(0, span > 300000 ? 5 : 8)) };
  const shares = { ...axis, yText: percent, yTick: percentTick, low: 0 };
  const out = [
    { id: "chart-speed", title: "Speed", about: "Tokens per second in planned steps, without padding.", data: { ...axis, yText: short, low: 0, series: [{ name: "tokens/s", color: 0, values: t.tokens ?? [] }] } },
    { id: "chart-documents", title: "Documents", about: "Documents per second: published by producers, and planned.", data: { ...axis, yText: short, low: 0,
      series: [{ name: "published", color: 1, values: t.published ?? [] }, { name: "planned", color: 0, values: t.documents ?? [] }] } },
    { id: "chart-waiting", title: "Waiting", about: "Share of time in which a rank waited for a step that was not planned.", data: { ...shares, atLeast: 0.05, series: [{ name: "waiting", color: "warn", values: t.waiting ?? [] }] } },
    { id: "chart-split", title: "Split and related", about: "Documents in more than one span. With splice: rows that did not run out of related documents.", data: { ...shares, atLeast: 0.01,
      series: [{ name: "split", color: 1, values: t.split ?? [] }, ...(t.related?.length ? [{ name: "related", color: 2, values: t.related }] : [])] } },
    { id: "chart-steps", title: "Pending steps", about: "Planned steps that not all ranks have read, and planned steps that not all jobs have committed.", data: { ...axis, yText: short, low: 0, atLeast: 4,
      series: [["not read", 0, t.read_steps], ["not committed", 2, t.committed_steps]].map(([name, color, done]) => ({ name, color, values: (t.planned_steps ?? []).map((n, i) => Math.max(n - (done?.[i] ?? 0), 0)) })) } },
  ];
  if ((t.health ?? []).length) out[0].data.marks = healthMarks(t, x);
  return out;
}

// healthMarks returns marks at the times when the health of the run changed.
function healthMarks(t, x) {
  return t.health.flatMap((health, i) => (i > 0 && health !== t.health[i - 1] ? [{ x: x[i], text: health }] : []));
}
