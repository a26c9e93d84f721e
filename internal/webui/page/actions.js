// Actions: what changes the run, each with a word on what it does, and asked again before it does it.
import { act } from "./connection.js";
import { byId, el, reconcile, setText, setVisible } from "./dom.js";
import { count, percent } from "./format.js";

const actions = {
  checkpoint: { title: "Store a checkpoint", button: "Store it", about: "Stores the planner's state now, so that a restart has less to plan again. Changes no step." },
  measure: { title: "Count the steps", button: "Count them", about: "Plans the rest of the run in the background to say exactly how many steps it will have. Takes processor time, changes no step." },
  flush: { title: "Flush", button: "Flush the run", about: "Packs everything that waits now, with more padding in these rows, and then goes on. It becomes a record of the plan and cannot be undone." },
  seal: { title: "Seal", button: "Seal", about: "Ends the stream of documents behind its present last one: the run ends when all of them are used. It becomes a record of the plan and cannot be undone.", fields: sealFields },
  mix: { title: "Change the weights", button: "Change them", about: "Gives sources other shares from a step on that is not planned yet. It becomes a record of the plan; another change can follow.", fields: mixFields, mixed: true },
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
  const { title, about } = actions[name];
  return { node: el("li", {}, el("h3", {}, title), el("p", { class: "small" }, about),
    el("button", { type: "button", id: `action-${name}`, "aria-haspopup": "dialog", onclick: () => confirm(name) }, `${title}...`)) };
}

// confirm asks again, with what the action has to know.
function confirm(name) {
  const { title, about, button, fields } = actions[name];
  const said = el("p", { class: "problem", role: "alert" });
  const go = el("button", { type: "submit", class: "do" }, button);
  const form = fields?.(latest) ?? { node: null, body: () => ({}) };
  const dialog = el("dialog", { "aria-labelledby": "ask-title", "aria-describedby": "ask-about" });
  const send = async (e) => {
    e.preventDefault();
    go.disabled = true;
    setText(said, "");
    try {
      const answer = await act(name, form.body());
      dialog.close();
      setText(byId("acted"), `${title}: ${outcome(name, answer)}`);
    } catch (problem) {
      setText(said, `${problem.message} ${problem.advice ?? ""}`);
      go.disabled = false;
    }
  };
  dialog.append(el("form", { onsubmit: send }, el("h2", { id: "ask-title" }, `${title}: run ${latest.run}`), el("p", { id: "ask-about" }, about), form.node, said,
    el("p", { class: "buttons" }, el("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Cancel"), go)));
  dialog.addEventListener("close", () => {
    dialog.remove();
    byId(`action-${name}`)?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

function outcome(name, answer) {
  if (name === "checkpoint") return `stored at step ${count(answer.step)}.`;
  if (name === "mix") return `in force from step ${count(answer.step)} on.`;
  if (name === "measure") return "it has begun; the figures on top tell when it is known.";
  return `recorded behind document ${answer.source ? `${answer.source}/` : ""}${count(answer.sequence)}.`;
}

// sealFields ask what is to be sealed.
function sealFields(s) {
  const open = (s.sources ?? []).filter((x) => !x.sealed && !x.removed);
  if (!open.length) return null;
  const choice = el("select", { id: "seal-source" }, el("option", { value: "" }, "all sources"), ...open.map((x) => el("option", { value: x.name }, x.name)));
  return { node: el("p", {}, el("label", { for: "seal-source" }, "What is sealed "), choice), body: () => (choice.value ? { source: choice.value } : {}) };
}

// mixFields ask for weights, and show the shares that they stand for.
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
  const node = el("table", {}, el("caption", { class: "unseen" }, "Weights of the sources"), el("thead", {}, el("tr", {}, ...["Source", "Weight", "Share", "Now"].map((t) => el("th", { scope: "col" }, t)))), el("tbody", {}, ...rows));
  return { node, body: () => ({ weights: Object.fromEntries(sources.map((x, i) => [x.name, Number(inputs[i].value)])) }) };
}
