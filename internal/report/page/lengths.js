// The plot of document lengths, with marks at the row lengths.
import { count, percent } from "./format.js";
import { Histogram } from "./histogram.js";
import { decades, doublings, inTokens, round, share } from "./numbers.js";

export function lengths({ lengths: d, rows }) {
  let [low, high] = [d.histogram[0].from, d.histogram.at(-1).to];
  if (high < 8 * low) [low, high] = [low / 3, high * 3]; // nearly equal lengths need a range
  low = Math.max(0.8, Math.min(low, 0.9 * rows[0]));
  high = Math.max(high, 1.1 * rows.at(-1));
  const tens = decades(low, high);
  const bins = d.histogram
    .map((b) => ({
      from: Math.max(b.from, low),
      to: b.to,
      name: `${count(Math.ceil(b.from))} to ${count(Math.ceil(b.to) - 1)}`,
      share: share(b.documents, d.documents),
      line: share(b.tokens, d.tokens),
      documents: b.documents,
      tokens: b.tokens,
    }))
    .filter((b) => b.documents || b.to - b.from >= 1);
  return {
    id: "lengths",
    title: "Document lengths",
    about:
      "Lengths in tokens. Dotted lines mark row lengths. Every method must split documents longer than the longest " +
      "row.",
    kind: Histogram,
    data: {
      height: 250,
      bins,
      low,
      high,
      xTicks: tens.length < 3 ? doublings(low, high) : tens,
      xText: tens.length < 3 ? inTokens : round,
      marks: rows.map((x) => ({ x, text: rows.length === 1 ? `row ${inTokens(x)}` : inTokens(x) })),
      legend: [
        { name: "documents", kind: "bar-c" },
        { name: "tokens", color: "warn", kind: "stroke" },
      ],
      label:
        `Document lengths: median ${count(d.median)} tokens, 99 % up to ${count(d.p99)}, longest ${count(d.max)}. ` +
        "The table contains all values.",
      columns: [
        ["Documents", (b) => count(b.documents)],
        ["Share of documents", (b) => percent(b.share)],
        ["Tokens", (b) => count(b.tokens)],
        ["Share of tokens", (b) => percent(b.line)],
      ],
    },
  };
}
