// The phases of the size of steps: a table with a bar for the rows of each phase, and their lengths if a phase changes
// them. The current phase is marked.
import { byId, el, setAttribute, setText, setVisible, table } from "./dom.js";
import { count, plural, short } from "./format.js";

let all; // the table, and whether it has the column of row lengths
let hasLengths;

export function updateSchedule(s) {
  const x = s.schedule;
  setVisible(byId("schedule-section"), Boolean(x));
  if (!x) return;
  const lengths = Boolean(x.buckets);
  if (!all || lengths !== hasLengths) {
    all = table("Phases of the size of steps", lengths ? [...columns, lengthColumn] : columns, (p) => p.index, (p) => (p.current ? "best" : ""));
    hasLengths = lengths;
    byId("schedule").replaceChildren(all.node);
  }
  setText(byId("schedule-next"), sentence(x));
  const most = Math.max(...x.phases.flatMap((p) => p.step_rows));
  all.update(x.phases.map((p) => ({ ...p, most, current: p.index === x.phase })));
  const hidden = x.phases_total - x.phases.length;
  setVisible(byId("schedule-rest"), hidden > 0);
  setText(byId("schedule-rest"), `${plural(hidden, "more phase")}: loaderd schedule shows all.`);
}

// sentence describes the size of the next step, and when it changes.
function sentence(x) {
  const now = `The next step has ${size(x)} (phase ${x.phase} of ${x.phases_total - 1}).`;
  const c = x.next_change;
  if (!c) return `${now} Later steps have the same size.`;
  const left = c.steps ? plural(c.steps, "step") : `${short(c.tokens ?? 0)} tokens`;
  return c.phase === x.phase ? `${now} It is in a ramp: ${size(c)} in ${left}.` : `${now} Phase ${c.phase} begins in ${left}, with ${size(c)}.`;
}

// size formats the rows of a step, and their lengths if these are known.
const size = (x) => `${range(x.rows)} rows${x.buckets ? ` of ${range(x.buckets)} tokens` : ""}`;

// range formats the values of all buckets: 64, or 16 to 64.
function range(rows) {
  const [low, high] = [Math.min(...rows), Math.max(...rows)];
  return low === high ? count(low) : `${count(low)} to ${count(high)}`;
}

const columns = [
  { name: "Phase", cell: phaseCell },
  { name: "From", left: true, text: (p) => length(p.from_step, p.from_tokens) || "the start" },
  { name: "Ramp", about: "how long the rows take to reach those of the phase", left: true, text: (p) => length(p.ramp_steps, p.ramp_tokens) || "none" },
  { name: "Rows per step", about: "after the ramp; with several buckets those of the smallest and of the largest step", left: true, cell: rowsCell },
  { name: "First step", text: (p) => (p.first_step === undefined ? "" : count(p.first_step)) },
];

const lengthColumn = { name: "Tokens per row", about: "row lengths; with several buckets the smallest and the largest", text: (p) => range(p.buckets) };

function phaseCell(cell, p) {
  setText(cell, p.current ? `${p.index} (current)` : String(p.index));
  setAttribute(cell, "aria-current", p.current ? "step" : null);
}

// length formats a number of steps or a number of tokens. One of the two is set.
const length = (steps, tokens) => (steps ? plural(steps, "step") : tokens ? `${short(tokens)} tokens` : "");

function rowsCell(cell, p) {
  if (!cell.firstElementChild) cell.append(el("div", { class: "share", "aria-hidden": "true" }, el("i", { class: "c-0" })), el("span"));
  cell.firstElementChild.firstElementChild.style.width = `${((100 * Math.max(...p.step_rows)) / p.most).toFixed(1)}%`;
  setText(cell.lastElementChild, range(p.step_rows));
}
