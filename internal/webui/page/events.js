// The events of the run, newest first, each with advice.
import { byId, el, reconcile, setAttribute, setText, setVisible } from "./dom.js";
import { clock, count, daemonName } from "./format.js";

const few = 10;
let open = false;
let latest = null;

export function startEvents() {
  byId("events-more").addEventListener("click", () => {
    open = !open;
    if (latest) updateEvents(latest);
  });
}

export function updateEvents(s) {
  latest = s;
  const all = s.events ?? [];
  const copies = new Map(); // events can be equal in time and text
  const entries = all.map((e) => {
    const key = `${e.time} ${e.kind} ${e.text}`;
    copies.set(key, (copies.get(key) ?? 0) + 1);
    return { ...e, key: `${key} ${copies.get(key)}` };
  });
  reconcile(byId("events"), open ? entries : entries.slice(0, few), (e) => e.key, make, () => {});
  const more = byId("events-more");
  setVisible(more, all.length > few);
  setText(more, open ? "Show the newest" : `Show all ${count(all.length)}`);
  setAttribute(more, "aria-expanded", String(open));
}

function make(e) {
  return { node: el("li", { "data-kind": e.kind }, el("time", { datetime: e.time }, clock(e.time)), el("span", { class: "kind" }, e.kind),
    el("span", {}, e.text, e.do ? el("span", { class: "do" }, ` What to do: ${e.do}`) : null, el("span", { class: "small" }, ` ${daemonName(e.daemon)}`))) };
}
