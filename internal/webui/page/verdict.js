// The verdict on the run, with its key figures.
import { byId, el, reconcile, setAttribute, setText, setVisible } from "./dom.js";
import { bytes, clock, count, daemonName, duration, percent, short } from "./format.js";

const healthNames = { running: "Running", waiting: "Waiting", failing: "Failing" };

// announced is the last announced sentence without its numbers. Screen readers announce the sentence when its words
// change, not when its numbers do.
let announced = "";

export function updateVerdict(s) {
  const v = s.verdict ?? {};
  const health = v.health === "running" && v.sentence.startsWith("Ended") ? "Ended" : healthNames[v.health] ?? v.health ?? "";
  setAttribute(byId("top"), "data-health", v.health);
  setText(byId("health"), health);
  setText(byId("sentence"), withoutHealth(v.sentence ?? "", health));
  const advice = byId("advice");
  setVisible(advice, Boolean(v.do));
  setText(advice, v.do ? `What to do: ${v.do}` : "");
  const detail = byId("detail");
  setVisible(detail, Boolean(v.detail));
  setText(detail, v.detail ?? "");
  const wording = `${health} ${v.sentence}`.replace(/[\d.,]+\s*[kMGT]?/g, "");
  if (wording !== announced) {
    announced = wording;
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

// withoutHealth removes the health from the start of a sentence, because the page shows it separately.
function withoutHealth(sentence, health) {
  if (sentence.startsWith(`${health}: `)) return sentence.slice(health.length + 2);
  return sentence.startsWith(`${health} `) ? sentence.slice(health.length + 1) : sentence;
}

function make([text, label]) {
  const value = el("b", {}, text);
  return { node: el("li", {}, value, el("span", {}, label)), value };
}

// counted formats a number of steps, which is null without a rank.
const counted = (n) => (n === null || n === undefined ? "-" : count(n));

// present returns the number of ranks that read. If ranks are missing, it adds the world size.
function present(s) {
  const sum = (of) => (s.jobs ?? []).reduce((n, j) => n + of(j), 0);
  const [world, reading] = [sum((j) => j.world), sum((j) => j.present)];
  return [reading < world ? `${count(reading)} of ${count(world)}` : count(world), world === 1 ? "rank reading" : "ranks reading"];
}

// facts returns the key figures as [value, label, description].
function facts(s) {
  const r = s.rates ?? {};
  const out = [
    [short(r.tokens ?? 0), "tokens/s", "tokens in planned steps, without padding"],
    [short(r.steps_read ?? 0), "steps/s read", "by the rank with the largest lag"],
    [count(s.planned_steps), "steps planned"],
    [counted(s.sent_steps), "steps sent", "to every rank of the most advanced job"],
    [counted(s.consumed_steps), "steps consumed", "by the trainers of all its ranks"],
    [count(s.committed_step), "steps committed", "covered by the checkpoints of all committing jobs"],
  ];
  const length = s.length;
  if (length?.steps && !s.ended) out.push([(length.exact ? "" : "≈ ") + count(length.steps), "steps in total", length.exact ? "" : `± ${count(length.error)}`]);
  if (s.ends_in_seconds !== null && s.ends_in_seconds !== undefined) out.push([duration(s.ends_in_seconds), "until the end"]);
  out.push(
    present(s),
    [`${bytes(r.bytes ?? 0)}/s`, "sent to ranks"],
    [percent(s.packing?.padding ?? 0), "padding", "of the rows' tokens"],
    [percent(s.packing?.split ?? 0), "documents split", "packed documents in more than one span"],
  );
  return out;
}
