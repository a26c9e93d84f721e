// Actions on the run. Each has a description and requires confirmation.
import { act } from "./connection.js";
import { byId, el, reconcile, setText, setVisible } from "./dom.js";
import { count, percent } from "./format.js";

const actions = {
  checkpoint: { title: "Store a checkpoint", button: "Store", about: "Stores the planner's current state, so that a restart replays less of the plan. Does not change any step." },
  measure: { title: "Count the steps", button: "Count", about: "Plans the rest of the run in the background to determine its exact number of steps. Uses CPU time and does not change any step." },
  flush: { title: "Flush", button: "Flush the run", about: "Packs all buffered documents now, with more padding in these rows, then continues. The flush is recorded in the plan and cannot be undone." },
  seal: { title: "Seal", button: "Seal", about: "Ends the document stream at its current last document. The run ends when all documents are used. The seal is recorded in the plan and cannot be undone.", fields: sealFields },
  mix: { title: "Change the weights", button: "Change", about: "Changes the weights of the sources, starting at a step that is not planned yet. The change is recorded in the plan. Later changes are possible.", fields: mixFields, mixed: true },
  filter: { title: "Change a filter", button: "Change", about: "Replaces the filter of documents, starting with the next document that is planned. Buffered documents are not affected. The change is recorded in the plan. Later changes are possible.", fields: filterFields },
  schedule: { title: "Change the step size", button: "Change", about: "Replaces the phases of steps that have not begun. Steps that are planned already keep their rows. The change is recorded in the plan. Later changes are possible.", fields: scheduleFields },
};

let latest = {};

export function updateActions(s) {
  latest = s;
  const mixed = (s.sources ?? []).length > 1;
  const may = (s.may ?? []).filter((a) => actions[a] && (mixed || !actions[a].mixed) && !(s.ended && a !== "checkpoint"));
  setVisible(byId("actions-section"), may.length > 0);
  reconcile(byId("actions"), Object.keys(actions).filter((a) => may.includes(a)), (a) => a, make, () => {});
}

function make(name) {
  const open = el("button", { type: "button", id: `action-${name}`, "aria-haspopup": "dialog", onclick: () => confirm(name) }, `${actions[name].title}...`);
  return { node: el("li", {}, open) };
}

// confirm opens a dialog with the fields of the action, and requests the action on confirmation.
function confirm(name) {
  const { title, about, button, fields } = actions[name];
  const error = el("p", { class: "problem", role: "alert" });
  const submit = el("button", { type: "submit", class: "do" }, button);
  const form = fields?.(latest, (problem) => setText(error, `${problem.message} ${problem.advice ?? ""}`)) ?? { node: null, body: () => ({}) };
  const dialog = el("dialog", { "aria-labelledby": "ask-title", "aria-describedby": "ask-about" });
  const send = async (e) => {
    e.preventDefault();
    if (form.ready && !form.ready()) return; // the current values are still loading
    submit.disabled = true;
    setText(error, "");
    try {
      const answer = await act(name, form.body());
      dialog.close();
      setText(byId("acted"), `${title}: ${outcome(name, answer)}`);
    } catch (problem) {
      setText(error, `${problem.message} ${problem.advice ?? ""}`);
      submit.disabled = false;
    }
  };
  dialog.append(el("form", { onsubmit: send }, el("h2", { id: "ask-title" }, `${title}: run ${latest.run}`), el("p", { id: "ask-about" }, about), form.node, error,
    el("p", { class: "buttons" }, el("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Cancel"), submit)));
  dialog.addEventListener("close", () => {
    dialog.remove();
    byId(`action-${name}`)?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

function outcome(name, answer) {
  if (name === "checkpoint") return `stored at step ${count(answer.step)}.`;
  if (name === "mix" || name === "filter" || name === "schedule") return `takes effect at step ${count(answer.step)}.`;
  if (name === "measure") return "started. The result will appear in the key figures at the top.";
  return `recorded after document ${answer.source ? `${answer.source}/` : ""}${count(answer.sequence)}.`;
}

// sealFields returns the choice of the source to seal.
function sealFields(s) {
  const open = (s.sources ?? []).filter((x) => !x.sealed && !x.removed);
  if (!open.length) return null;
  const choice = el("select", { id: "seal-source" }, el("option", { value: "" }, "all sources"), ...open.map((x) => el("option", { value: x.name }, x.name)));
  return { node: el("p", {}, el("label", { for: "seal-source" }, "Source to seal "), choice), body: () => (choice.value ? { source: choice.value } : {}) };
}

// mixFields returns the inputs for the weights, with the resulting shares.
function mixFields(s) {
  const sources = s.sources.filter((x) => !x.removed);
  const inputs = sources.map((x, i) => el("input", { id: `weight-${i}`, type: "number", min: 0, step: "any", required: true, value: Number(x.target.toPrecision(4)) }));
  const outs = sources.map(() => el("td"));
  const shares = () => {
    const sum = inputs.reduce((all, n) => all + Number(n.value), 0);
    inputs.forEach((n, i) => setText(outs[i], sum > 0 ? percent(Number(n.value) / sum) : "-"));
  };
  inputs.forEach((n) => n.addEventListener("input", shares));
  shares();
  const rows = sources.map((x, i) => el("tr", {}, el("th", { scope: "row" }, el("label", { for: `weight-${i}` }, x.name)), el("td", {}, inputs[i]), outs[i], el("td", {}, percent(x.target))));
  const node = el("table", {}, el("caption", { class: "unseen" }, "Weights of the sources"), el("thead", {}, el("tr", {}, ...["Source", "Weight", "Share", "Current"].map((t) => el("th", { scope: "col" }, t)))), el("tbody", {}, ...rows));
  return { node, body: () => ({ weights: Object.fromEntries(sources.map((x, i) => [x.name, Number(inputs[i].value)])) }) };
}

// filterFields returns the choice of the documents, and the expression, which it fills with the one in effect.
// onProblem is called if that cannot be read.
function filterFields(s, onProblem) {
  const sources = (s.sources ?? []).filter((x) => !x.removed);
  const choice = el("select", { id: "filter-source" }, el("option", { value: "" }, "all sources"), ...sources.map((x) => el("option", { value: x.name }, x.name)));
  const where = el("textarea", { id: "filter-where", maxlength: 4096, spellcheck: "false", disabled: true, placeholder: 'tokens >= 64 && meta.lang in ["en", "de"]' });
  let filters;
  const show = () => {
    where.value = (choice.value ? filters?.sources?.[choice.value] : filters?.where) ?? "";
  };
  choice.addEventListener("change", show);
  act("filter").then((answer) => {
    filters = answer;
    show();
    where.disabled = false;
  }, onProblem);
  const node = el("div", {}, el("p", {}, el("label", { for: "filter-source" }, "Documents of "), choice),
    el("label", { for: "filter-where" }, "Documents are used if this expression is true; without an expression, all are"), where);
  return { node, body: () => ({ where: where.value.trim(), ...(choice.value ? { source: choice.value } : {}) }), ready: () => Boolean(filters) };
}

// scheduleFields returns the inputs of one phase.
function scheduleFields() {
  const number = (id, properties) => el("input", { id, type: "number", step: 1, ...properties });
  const select = (id, about, ...options) => el("select", { id, "aria-label": about }, ...options.map((x) => el("option", { value: x }, x)));
  const size = number("phase-size", { min: 1, required: true });
  const unit = select("phase-unit", "Unit of the size of a step", "rows", "tokens");
  const from = number("phase-from", { min: 0 });
  const ramp = number("phase-ramp", { min: 0 });
  const counted = select("phase-counted", "Unit of start and ramp", "tokens", "steps");
  const lengths = el("input", { id: "phase-lengths", pattern: "[1-9][0-9]*( *, *[1-9][0-9]*)*", placeholder: "4096, 32768" });
  const line = (id, text, ...inputs) => el("p", {}, el("label", { for: id }, `${text} `), ...inputs);
  const node = el("div", {}, line("phase-size", "Size of a step", size, " ", unit), line("phase-from", "Starts after (empty: now)", from, " ", counted), line("phase-ramp", "Ramp (empty: none), in the same unit", ramp), line("phase-lengths", "Row lengths in tokens (empty: unchanged)", lengths));
  const body = () => {
    const phase = { [unit.value]: Number(size.value) };
    const [start, slope] = counted.value === "steps" ? ["from_step", "ramp_steps"] : ["from_tokens", "ramp_tokens"];
    if (from.value) phase[start] = Number(from.value);
    if (ramp.value) phase[slope] = Number(ramp.value);
    if (lengths.value) phase.buckets = lengths.value.split(",").map(Number);
    return { phases: [phase] };
  };
  return { node, body };
}
