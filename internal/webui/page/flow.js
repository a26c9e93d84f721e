// The flow: a bar for each buffer between the producers and the trainers' checkpoints.
import { byId, el, reconcile, setAttribute, setText } from "./dom.js";
import { bytes, duration, short } from "./format.js";

const stages = {
  stored: ["Stored"],
  published: ["Published", "accepted by the planner"],
  tokenized: ["Tokenized", "fetched and not planned yet"],
  pool: ["Pool", "buffered for packing"],
  held: ["Holdback", "of finished rows, held back to keep samples fair"],
  window: ["Shuffle window", "buffered for shuffling"],
  queues: ["Bucket queues", "buffered until their step is full"],
  ahead: ["Planned ahead", "beyond those requested by ranks"],
  read: ["Read", "consumed by all ranks"],
  committed: ["Committed", "covered by the commits of all jobs"],
};

export function updateFlow(s) {
  const running = s.verdict?.health === "running";
  reconcile(byId("flow"), [...stored(s), ...(s.flow ?? [])], (x) => x.name, make, (row, stage) => update(row, stage, running));
}

// stored returns the stage of the document stream that is closest to its size limit, or none if no stream has a limit.
function stored(s) {
  const bounded = (s.streams ?? []).filter((x) => x.max_bytes > 0);
  const [x] = bounded.sort((a, b) => b.bytes / b.max_bytes - a.bytes / a.max_bytes);
  if (!x) return [];
  const note = x.full ? "full" : x.full_in_seconds === undefined ? "" : `full in about ${duration(x.full_in_seconds)}`;
  return [{ name: "stored", value: x.bytes, of: x.max_bytes, unit: "bytes", about: `in stream ${x.name}`, note }];
}

function make(stage) {
  const [name] = stages[stage.name] ?? [stage.name];
  const fill = el("i");
  const meter = el("div", { class: "bar", role: "meter", "aria-label": name, "aria-valuemin": 0 }, fill);
  const value = el("b");
  const of = el("span", { class: "small" });
  const about = el("p", { class: "small about" });
  const rate = el("span", { class: "rate" });
  const tag = el("strong", { class: "tag" });
  const node = el("li", { class: "stage" }, el("h3", {}, name), meter, el("p", {}, value, " ", of), about, rate, tag);
  return { node, fill, meter, value, of, about, rate, tag };
}

// update shows a stage. In a running run, the bottleneck is not a problem.
function update(row, stage, running) {
  const full = stage.of > 0 ? Math.min(stage.value / stage.of, 1) : 0;
  row.fill.style.width = `${(full * 100).toFixed(1)}%`;
  const write = stage.unit === "bytes" ? bytes : short;
  const unit = stage.unit === "bytes" ? "" : stage.unit;
  const amount = write(stage.value);
  const of = stage.of > 0 ? `of ${write(stage.of)}` : "";
  const about = stage.about ?? `${unit} ${stages[stage.name]?.[1] ?? ""}`.trim();
  setAttribute(row.meter, "aria-valuemax", Math.max(stage.of, stage.value));
  setAttribute(row.meter, "aria-valuenow", stage.value);
  setAttribute(row.meter, "aria-valuetext", `${amount} ${of} ${about}`);
  setAttribute(row.meter, "data-open", stage.of > 0 ? null : "");
  setText(row.value, amount);
  setText(row.of, of);
  setText(row.about, about);
  setText(row.rate, stage.note ?? `${short(stage.rate)} ${stage.rate_unit}/s`);
  setAttribute(row.node, "data-limits", stage.limits ? (running ? "paces" : "holds") : null);
  setText(row.tag, stage.limits ? (running ? "Bottleneck" : "Blocks the run") : "");
}
