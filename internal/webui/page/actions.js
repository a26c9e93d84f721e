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
  const form = fields?.(latest) ?? { node: null, body: () => ({}) };
  const dialog = el("dialog", { "aria-labelledby": "ask-title", "aria-describedby": "ask-about" });
  const send = async (e) => {
    e.preventDefault();
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
  if (name === "mix") return `takes effect at step ${count(answer.step)}.`;
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
