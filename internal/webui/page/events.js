// The events of the run, newest first, filtered by kind. Advice that several events share is shown at the newest.
import { byId, el, reconcile, setAttribute, setText, setVisible } from "./dom.js";
import { clock, count, daemonName } from "./format.js";

const few = 10;
let open = false;
let latest = null;

export function startEvents() {
  const redraw = () => latest && updateEvents(latest);
  byId("events-kinds").addEventListener("change", redraw);
  byId("events-more").addEventListener("click", () => {
    open = !open;
    redraw();
  });
}

export function updateEvents(s) {
  latest = s;
  const all = s.events ?? [];
  const kind = filter(all);
  const copies = new Map(); // events can be equal in time and text
  const advice = new Set([s.verdict?.do]);
  const entries = all.filter((e) => !kind || e.kind === kind).map((e) => {
    const key = `${e.time} ${e.kind} ${e.text}`;
    copies.set(key, (copies.get(key) ?? 0) + 1);
    const advised = e.do && !advice.has(e.do);
    advice.add(e.do);
    return { ...e, advised, key: `${key} ${copies.get(key)}` };
  });
  setVisible(byId("events-none"), all.length === 0);
  reconcile(byId("events"), open ? entries : entries.slice(0, few), (e) => e.key, make, (row, e) => setText(row.advice, e.advised ? ` What to do: ${e.do}` : ""));
  const more = byId("events-more");
  setVisible(more, entries.length > few);
  setText(more, open ? "Show the newest" : `Show all ${count(entries.length)}`);
  setAttribute(more, "aria-expanded", String(open));
}

// filter offers the kinds of events, and returns the selected one, empty for all.
function filter(all) {
  const counts = new Map([["", all.length]]);
  for (const e of all) counts.set(e.kind, (counts.get(e.kind) ?? 0) + 1);
  const selected = byId("events-kinds").querySelector("input:checked")?.value ?? "";
  if (!counts.has(selected)) counts.set(selected, 0);
  setVisible(byId("events-kinds"), counts.size > 2);
  reconcile(byId("events-kinds"), counts, ([kind]) => kind, ([kind]) => {
    const text = el("span");
    return { node: el("label", {}, el("input", { type: "radio", name: "kind", value: kind, checked: !kind }), text), text };
  }, (row, [kind, n]) => setText(row.text, `${kind || "all"} ${count(n)}`));
  return selected;
}

function make(e) {
  const advice = el("span", { class: "do" });
  const node = el("li", { "data-kind": e.kind }, el("time", { datetime: e.time }, clock(e.time)), el("span", { class: "kind" }, e.kind),
    el("span", {}, e.text, advice, el("span", { class: "small" }, ` ${daemonName(e.daemon)}`)));
  return { node, advice };
}
