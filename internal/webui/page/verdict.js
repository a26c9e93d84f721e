// The verdict: one sentence, and the figures that stand beside it.
import { byId, el, reconcile, setAttribute, setText, setVisible } from "./dom.js";
import { bytes, clock, count, daemonName, duration, percent, short } from "./format.js";

const words = { running: "Running", waiting: "Waiting", failing: "Failing" };

// spoken is the sentence as it was read out last. Its numbers change each second: it is read out again when its words do.
let spoken = "";

export function updateVerdict(s) {
  const v = s.verdict ?? {};
  const health = v.health === "running" && v.sentence.startsWith("Ended") ? "Ended" : words[v.health] ?? v.health ?? "";
  setAttribute(byId("top"), "data-health", v.health);
  setText(byId("health"), health);
  setText(byId("sentence"), without(v.sentence ?? "", health));
  const advice = byId("advice");
  setVisible(advice, Boolean(v.do));
  setText(advice, v.do ? `What to do: ${v.do}` : "");
  const detail = byId("detail");
  setVisible(detail, Boolean(v.detail));
  setText(detail, v.detail ?? "");
  const inWords = `${health} ${v.sentence}`.replace(/[\d.,]+\s*[kMGT]?/g, "");
  if (inWords !== spoken) {
    spoken = inWords;
    setText(byId("announce"), `${health}: ${v.sentence} ${v.do ?? ""}`);
  }
  setText(byId("run"), s.run);
  setText(byId("who"), `run ${s.run_id.slice(0, 12)}, daemon ${daemonName(s.daemon)}, ${clock(s.time)}`);
  setText(byId("version"), s.version ? `loaderd ${s.version}.` : "");
  document.title = `${health}: ${s.run} - loaderd`;
  reconcile(byId("facts"), facts(s), ([, label]) => label, make, ({ value, node }, [text, , about]) => {
    setText(value, text);
    setAttribute(node, "title", about);
  });
}

// without leaves the first word of a sentence out where the word beside it says the same: Waiting, for documents.
function without(sentence, health) {
  if (sentence.startsWith(`${health}: `)) return sentence.slice(health.length + 2);
  return sentence.startsWith(`${health} `) ? sentence.slice(health.length + 1) : sentence;
}

function make([text, label]) {
  const value = el("b", {}, text);
  return { node: el("li", {}, value, el("span", {}, label)), value };
}

// counted is a number of steps, null before any rank.
const counted = (n) => (n === null || n === undefined ? "-" : count(n));

// present is how many ranks read, of how many by the world sizes of their jobs where some do not.
function present(s) {
  const sum = (of) => (s.jobs ?? []).reduce((n, j) => n + of(j), 0);
  const [world, there] = [sum((j) => j.world), sum((j) => j.present)];
  return [there < world ? `${count(there)} of ${count(world)}` : count(world), world === 1 ? "rank reads" : "ranks read"];
}

// facts are [value, label, what that is].
function facts(s) {
  const r = s.rates ?? {};
  const out = [
    [short(r.tokens ?? 0), "tokens/s", "tokens in planned steps, padding left out"],
    [short(r.steps_read ?? 0), "steps/s read", "by the rank that is furthest behind"],
    [count(s.planned_steps), "steps planned"],
    [counted(s.sent_steps), "steps sent", "to every rank of the job that is furthest on"],
    [counted(s.consumed_steps), "steps consumed", "by the trainers of all of its ranks"],
    [count(s.committed_step), "steps committed", "the checkpoints of all committing jobs cover them"],
  ];
  const length = s.length;
  if (length?.steps && !s.ended) out.push([(length.exact ? "" : "≈ ") + count(length.steps), "steps in all", length.exact ? "" : `give or take ${count(length.error)}`]);
  if (s.ends_in_seconds !== null && s.ends_in_seconds !== undefined) out.push([duration(s.ends_in_seconds), "until the end"]);
  out.push(
    present(s),
    [`${bytes(r.bytes ?? 0)}/s`, "sent to ranks"],
    [percent(s.packing?.padding ?? 0), "padding", "of the tokens of rows"],
    [percent(s.packing?.split ?? 0), "documents split", "in more than one piece, of those packed"],
  );
  return out;
}
