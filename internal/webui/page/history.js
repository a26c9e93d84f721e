// How the run went: a chart for each figure, over the whole run or the last minutes of it.
import { Chart } from "./chart.js";
import { byId, el, reconcile, setText, setVisible } from "./dom.js";
import { clock, count, percent, short } from "./format.js";
import { lengthsData, newLengths } from "./lengths.js";

const most = 8; // sources that a chart can tell apart

const charts = {};
let lengths;
let shown = null;

export function updateHistory(h) {
  shown = h;
  render();
}

// startHistory wires the switch between the whole run and the last of it.
export function startHistory() {
  for (const choice of document.querySelectorAll("input[name=span]")) choice.addEventListener("change", render);
}

function render() {
  const h = shown;
  if (!h) return;
  const late = document.querySelector("input[name=span]:checked")?.value === "late";
  const steps = whole((late ? h.recent_steps : h.steps) ?? {});
  const times = (late ? h.recent_times : h.times) ?? {};
  const made = [...byStep(h, steps), ...byTime(times)];
  reconcile(byId("charts"), [...made, { id: "chart-corpus" }], (c) => c.id, (c) => {
    if (c.id === "chart-corpus") return (lengths = newLengths());
    return (charts[c.id] = new Chart(c.id, c.title, c.about));
  }, (chart, c) => (c.data ? chart.draw(c.data) : undefined));
  lengths.draw(lengthsData(h.lengths ?? []));
  const note = byId("history-note");
  const planned = steps.first?.length ? steps.first.at(-1) + steps.steps.at(-1) : 0;
  const waits = h.known_steps < planned;
  setVisible(note, waits);
  setText(note, waits ? `This daemon has counted ${count(h.known_steps)} steps of the plan so far; the rest follows.` : "");
  reconcile(byId("marks"), [...(h.marks ?? [])].reverse(), (m) => `${m.step} ${m.kind} ${m.text}`, (m) => ({ node: el("li", {}, el("b", {}, `Step ${count(m.step)}`), ` ${m.text}`) }), () => {});
  setVisible(byId("marks-section"), (h.marks ?? []).length > 0);
}

// whole makes lists of what has no entry yet, which comes as null.
const whole = (s) => ({ ...s, ...Object.fromEntries(["buckets", "sources", "targets"].map((k) => [k, (s[k] ?? []).map((list) => list ?? [])])) });

const ratio = (a, b) => a.map((v, i) => (b[i] ? v / b[i] : null));
const sum = (lists) => lists.reduce((all, list) => list.map((v, i) => (all[i] ?? 0) + v), []);

// byStep are the charts over steps: {id, title, about, data}.
function byStep(h, s) {
  const axis = { x: s.first ?? [], xKind: "step", xText: count, marks: (h.marks ?? []).map((m) => ({ x: m.step, text: m.text })) };
  const shares = { ...axis, yText: percent, low: 0 };
  const out = [];
  if (s.sources?.length && h.sources?.length > 1) {
    out.push({ id: "chart-shares", title: "Shares of sources", about: "Of the tokens in steps; dashed, what each was to have. Upright lines: what changed the run.", data: { ...shares, series: shareSeries(h.sources, s) } });
  }
  const rows = s.buckets ?? [];
  const total = sum(rows);
  out.push({ id: "chart-buckets", title: "Buckets", about: "Steps by the length of their rows, in tokens.", data: { ...shares, stacked: true, high: 1,
    series: (h.buckets ?? []).map((b, i) => ({ name: count(b), color: i % 8, values: ratio(rows[i] ?? [], total).map((v) => v ?? 0) })) } });
  out.push({ id: "chart-padding", title: "Padding and parts", about: "Padding, of the tokens of rows. Pieces that go on where one before ended, of all pieces.", data: { ...shares, atLeast: 0.01,
    series: [{ name: "padding", color: 0, values: ratio((s.slots ?? []).map((v, i) => v - s.tokens[i]), s.slots ?? []) },
      { name: "pieces not whole", color: 1, values: ratio(s.continued ?? [], s.pieces ?? []) }] } });
  out.push({ id: "chart-age", title: "Ages", about: "In documents that have come since: the oldest one that still waits for a step, and the oldest in the step.", data: { ...axis, yText: short, low: 0,
    series: [{ name: "oldest that waits", color: 1, values: s.waits ?? [] }, ...(s.age?.length ? [{ name: "oldest in the step", color: 0, values: s.age }] : [])] } });
  out.push({ id: "chart-lengths", title: "Lengths by step", about: "Of the pieces of each step, in tokens: a tenth is shorter, half, nine tenths.", data: { ...axis, yText: short, log: 2,
    series: [["9 of 10", 3, s.length_p90], ["median", 0, s.length_p50], ["1 of 10", 2, s.length_p10]].map(([name, color, values]) => ({ name, color, values: values ?? [] })) } });
  return out;
}

// shareSeries are the shares of sources with their targets; of many sources those that were furthest from theirs.
function shareSeries(names, s) {
  const total = sum(s.sources);
  const all = names.map((name, i) => {
    const values = ratio(s.sources[i] ?? [], total);
    const targets = s.targets?.[i] ?? [];
    return { name, i, values, targets, off: Math.max(0, ...values.map((v, k) => Math.abs((v ?? 0) - (targets[k] ?? 0)))) };
  });
  const kept = all.length > most ? [...all].sort((a, b) => b.off - a.off).slice(0, most).sort((a, b) => a.i - b.i) : all;
  return kept.flatMap((x) => [{ name: x.name, color: x.i % 8, values: x.values }, { name: `${x.name}, target`, color: x.i % 8, values: x.targets, dashed: true }]);
}

// byTime are the charts over time.
function byTime(t) {
  const x = (t.at ?? []).map((a) => Date.parse(a));
  const span = x.length > 1 ? x.at(-1) - x[0] : 0;
  const axis = { x, xKind: "time", xText: (v) => (span > 86400000 ? clock(v, 0).slice(5, 16) : clock(v, v).slice(0, span > 300000 ? 5 : 8)) };
  const shares = { ...axis, yText: percent, low: 0 };
  const out = [
    { id: "chart-speed", title: "Speed", about: "Tokens a second in planned steps, padding left out.", data: { ...axis, yText: short, low: 0, series: [{ name: "tokens/s", color: 0, values: t.tokens ?? [] }] } },
    { id: "chart-documents", title: "Documents", about: "A second: published by producers, and planned.", data: { ...axis, yText: short, low: 0,
      series: [{ name: "published", color: 1, values: t.published ?? [] }, { name: "planned", color: 0, values: t.documents ?? [] }] } },
    { id: "chart-waiting", title: "Waiting", about: "Part of the time in which a rank waited for a step that was not planned.", data: { ...shares, atLeast: 0.05, series: [{ name: "waiting", color: "warn", values: t.waiting ?? [] }] } },
    { id: "chart-split", title: "Split and related", about: "Documents in more than one piece; with splice, rows that did not run out of related documents.", data: { ...shares, atLeast: 0.01,
      series: [{ name: "split", color: 1, values: t.split ?? [] }, ...(t.related?.length ? [{ name: "related", color: 2, values: t.related }] : [])] } },
    { id: "chart-steps", title: "Steps that wait", about: "Of those planned: not read by all ranks yet, and not committed by all jobs yet.", data: { ...axis, yText: short, low: 0, atLeast: 4,
      series: [["not read", 0, t.read_steps], ["not committed", 2, t.committed_steps]].map(([name, color, done]) => ({ name, color, values: (t.planned_steps ?? []).map((n, i) => Math.max(n - (done?.[i] ?? 0), 0)) })) } },
  ];
  if ((t.health ?? []).length) out[0].data.marks = healthMarks(t, x);
  return out;
}

// healthMarks are the moments in which the run became worse or well again.
function healthMarks(t, x) {
  return t.health.flatMap((health, i) => (i > 0 && health !== t.health[i - 1] ? [{ x: x[i], text: health }] : []));
}
