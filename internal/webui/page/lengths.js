// The histogram of span lengths over the whole run, by powers of two.
import { count, percent, short } from "./format.js";
import { Histogram } from "./histogram.js";
import { powers } from "./scale.js";

export const newLengths = () =>
  new Histogram(
    "chart-corpus",
    "Lengths of the whole run",
    "Span lengths in tokens, for comparison with the lengths by step.",
    "h4",
  );

// lengthsData converts counts to histogram data. counts[0] is the number of spans of 1 token, counts[i] of those of
// 2^(i-1)+1 to 2^i tokens.
export function lengthsData(counts) {
  const all = counts.reduce((a, b) => a + b, 0);
  const first = Math.max(
    counts.findIndex((n) => n > 0),
    0,
  );
  const last = Math.max(
    counts.findLastIndex((n) => n > 0),
    first,
  );
  const bins = counts
    .slice(first, last + 1)
    .map((n, k) => ({
      from: 2 ** (first + k - 1),
      to: 2 ** (first + k),
      name: range(first + k),
      pieces: n,
      share: n / (all || 1),
    }));
  const [low, high] = [2 ** (first - 1), 2 ** last];
  return {
    bins,
    low,
    high,
    xTicks: powers(low, high, 32),
    xText: short,
    label: `Lengths of ${short(all)} spans. The table contains all values.`,
    columns: [
      ["Spans", (b) => count(b.pieces)],
      ["Share", (b) => percent(b.share)],
    ],
  };
}

const range = (i) => (i < 2 ? String(2 ** i) : `${count(2 ** (i - 1) + 1)} to ${count(2 ** i)}`);
