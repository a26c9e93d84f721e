// Plots of the relatedness of documents within rows.
import { Chart } from "./chart.js";
import { count, percentTick } from "./format.js";
import { perMethod, quantileLegend, quantiles } from "./methods.js";
import { thousandths } from "./numbers.js";
import { scale, ticks } from "./scale.js";

const related = (report) => report.results.filter((r) => r.related?.rows > 0 && r.zipf_quantiles);
const burstiest = (results) =>
  results.reduce((a, b) => (b.related.zipf_mle.mean < a.related.zipf_mle.mean ? b : a)).method;

// zipf returns the plot of the Zipf exponents of single rows.
export function zipf(report) {
  const results = related(report);
  if (!results.length) return null;
  const value = (r, q) => r.zipf_quantiles.find((z) => z.share === q).exponent;
  const low = Math.floor(20 * Math.min(...results.map((r) => value(r, 0.05)))) / 20;
  const high = Math.ceil(20 * Math.max(...results.map((r) => value(r, 0.95))) + 0.01) / 20;
  const position = scale(low, high, 0, 1);
  return perMethod(report, results, {
    id: "zipf",
    title: "Burstiness of rows",
    about:
      "Zipf exponent of the token counts of single rows. In a row with a lower exponent, tokens recur more often. " +
      "At the right: mean.",
    data: {
      best: burstiest(results),
      position,
      ticks: ticks(low, high, 12),
      tickText: (v) => v.toFixed(2),
      number: (r) => thousandths(r.related.zipf_mle.mean),
      paint: (r, y) => quantiles((q) => position(value(r, q)), y),
      legend: quantileLegend("rows"),
      table: results[0].zipf_quantiles.map((z) => [
        `${percentTick(z.share)} up to`,
        (r) => thousandths(value(r, z.share)),
      ]),
    },
  });
}

// counts returns the plot of the share of a row's distinct tokens that occur at least n times in it. A power law is a
// straight line; a flatter line means burstier rows.
export function counts(report) {
  const results = related(report);
  if (!results.length) return null;
  const best = burstiest(results);
  const x = [...new Set(results.flatMap((r) => r.token_counts.map((c) => c.count)))].sort((a, b) => a - b);
  // The burstiest method is drawn last, on top of the others.
  const order = [...results].sort((a, b) => (a.method === best) - (b.method === best));
  const series = order.map((r) => ({
    name: r.method,
    color: r.method === best ? "best" : "other",
    values: x.map((n) => r.token_counts.find((c) => c.count === n)?.share ?? null),
  }));
  return {
    id: "counts",
    title: "Recurring tokens",
    about:
      "Mean share of a row's distinct tokens that occur at least this often in it. A flatter line means burstier " +
      "rows. Logarithmic scale.",
    kind: Chart,
    data: {
      x: x.length > 1 ? x : [...x, 2],
      xKind: "count",
      xText: count,
      xLog: 10,
      log: 10,
      high: 1,
      yText: percentTick,
      series,
      legend: [
        { name: best, color: "best", kind: "stroke thick" },
        ...(results.length > 1 ? [{ name: "other methods", color: "other", kind: "stroke" }] : []),
      ],
    },
  };
}
