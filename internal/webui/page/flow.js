// The flow: a bar for each place where documents wait, from the producers to the trainers' checkpoints.
import { byId, el, reconcile, setAttribute, setText } from "./dom.js";
import { bytes, duration, short } from "./format.js";

const stages = {
  stored: ["Stored"],
  published: ["Published", "taken by the run, of those that are stored"],
  tokenized: ["Tokenized", "of documents that are fetched and not planned yet"],
  pool: ["Pool", "that wait to be packed into rows"],
  held: ["Held rows", "of finished rows, held back for short documents"],
  window: ["Shuffle window", "that wait to be drawn"],
  queues: ["Bucket queues", "that wait for their step to be full"],
  ahead: ["Planned ahead", "beyond what ranks asked for"],
  read: ["Read", "that all ranks have, of those planned"],
  committed: ["Committed", "covered by the checkpoints of all committing jobs, of the planned steps"],
};

export function updateFlow(s) {
  const paces = s.verdict?.health === "running";
  reconcile(byId("flow"), [...stored(s), ...(s.flow ?? [])], (x) => x.name, make, (row, stage) => update(row, stage, paces));
}

// stored is the stage of the stream that uses most of its bound; none where no stream has one.
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

// update shows a stage; paces says that the run does well, so that what limits it does no harm.
function update(row, stage, paces) {
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
  setAttribute(row.node, "data-limits", stage.limits ? (paces ? "paces" : "holds") : null);
  setText(row.tag, stage.limits ? (paces ? "Sets the pace" : "Holds the others up") : "");
}
