// The plots of a comparison, each as {id, title, about, kind, data}. Plots without data are omitted.
import { count, percent, percentTick, short } from "./format.js";
import { lengths } from "./lengths.js";
import { box, dot, line, perMethod, quantileLegend, quantiles } from "./methods.js";
import { decades, doublings, hundredths, inTokens, round, share } from "./numbers.js";
import { counts, zipf } from "./related.js";
import { scale, scaleFromZero, ticks } from "./scale.js";
import { rows, samples, sources } from "./shares.js";

// figures returns the plots of a report in display order.
export function figures(report) {
  if (!report.results?.length || !report.lengths.documents) return [];
  return [lengths, sources, padding, split, lost, documents, rows, ages, samples, attention, speed, zipf, counts]
    .map((f) => f(report))
    .filter(Boolean);
}

const padding = (report) =>
  lollipops(
    report,
    "padding",
    "Padding",
    "Share of slots without a token. A padding slot costs as much as a token. Logarithmic scale.",
    (r) => r.padding_ratio,
  );

const split = (report) =>
  lollipops(
    report,
    "split",
    "Documents split",
    `Share of documents cut into several pieces. ${percent(report.lengths.longer)} of the documents are longer than ` +
      "the longest row. Logarithmic scale.",
    (r) => r.truncation_ratio,
  );

function lost(report) {
  const value = (r) => share(r.dropped_tokens + r.repeated_tokens, r.tokens);
  return (
    report.results.some((r) => value(r) > 0) &&
    lollipops(
      report,
      "lost",
      "Tokens dropped or repeated",
      "Share of tokens that a method omits, or trains on twice, by design. Logarithmic scale.",
      value,
    )
  );
}

// lollipops returns a plot of shares on a logarithmic axis.
function lollipops(report, id, title, about, value) {
  const all = report.results.map(value);
  const low = 10 ** Math.floor(Math.log10(Math.min(...all.filter((v) => v > 0), 0.01) * 1.0000001));
  const high = Math.max(...all, 10 * low);
  const position = scaleFromZero(low, high);
  return perMethod(report, report.results, {
    id,
    title,
    about,
    data: {
      position,
      ticks: [0, ...decades(low, high)],
      tickText: percentTick,
      number: (r) => percent(value(r)),
      paint: (r, y) => [line(0, position(value(r)), y), dot(position(value(r)), y)],
      table: [["Share", (r) => percent(value(r))]],
    },
  });
}

const documents = (report) =>
  bars(
    report,
    "documents",
    "Documents per row",
    "Mean number of documents per row. The higher it is, the larger the part of unmasked attention between " +
      "unrelated documents.",
    (r) => r.concatenation_ratio,
    hundredths,
  );

const speed = (report) =>
  bars(
    report,
    "speed",
    "Speed",
    "Documents packed per second on one core of the machine that created this report.",
    (r) => r.documents_per_second,
    short,
  );

function bars(report, id, title, about, value, text) {
  const most = Math.max(...report.results.map(value)) || 1;
  return perMethod(report, report.results, {
    id,
    title,
    about,
    data: {
      position: (v) => v / most,
      ticks: ticks(0, most, 5),
      tickText: round,
      number: (r) => text(value(r)),
      paint: (r, y) => [box(0, value(r) / most, y, 6)],
      table: [[title, (r) => text(value(r))]],
    },
  });
}

function ages(report) {
  const most = Math.max(...report.results.map((r) => r.age_max), 10);
  const position = scaleFromZero(1, most);
  const age = (r, q) => r.ages.find((a) => a.share === q).age;
  const paint = (r, y) => {
    const at = (q) => position(age(r, q));
    return [line(at(0), at(1), y), line(at(1), at(1), y, { y1: y - 6, y2: y + 6 }), ...quantiles(at, y)];
  };
  return perMethod(report, report.results, {
    id: "ages",
    title: "Document age",
    about:
      "Documents that arrive between a document's arrival and the emission of its last token. At the right: " +
      "median / maximum. Logarithmic scale.",
    data: {
      position,
      ticks: [0, ...decades(1, most)],
      tickText: round,
      paint,
      number: (r) => `${count(r.age_median)} / ${count(r.age_max)}`,
      legend: [...quantileLegend("documents"), { name: "all", kind: "stroke" }],
      table: report.results[0].ages.map((a) => [
        a.share === 1 ? "Maximum" : `${percentTick(a.share)} up to`,
        (r) => count(age(r, a.share)),
      ]),
    },
  });
}

function attention(report) {
  const masked = (r) => share(r.attention_cost, r.tokens);
  const dense = (r) => share(r.attention_cost_unmasked, r.tokens);
  const high = Math.max(...report.results.map(dense), 2);
  let low = 2 ** Math.floor(Math.log2(Math.min(...report.results.map(masked).filter((v) => v > 0))));
  if (!(low < high)) low = high / 2;
  const position = scale(low, high, 0, 1, true);
  return perMethod(report, report.results, {
    id: "attention",
    title: "Attention",
    about:
      "Mean number of tokens that a token attends to, which is the cost of attention. At the right: the masked cost " +
      "as a share of the unmasked cost. Logarithmic scale.",
    data: {
      position,
      ticks: doublings(low, high),
      tickText: inTokens,
      number: (r) => percent(share(r.attention_cost, r.attention_cost_unmasked)),
      paint: (r, y) =>
        r.tokens
          ? [
              line(position(masked(r)), position(dense(r)), y, { class: "span" }),
              dot(position(dense(r)), y, { class: "ring" }),
              dot(position(masked(r)), y),
            ]
          : [],
      legend: [
        { name: "with a document mask", kind: "ball gray" },
        { name: "without a mask", kind: "ball ring" },
      ],
      table: [
        ["With a mask", (r) => short(masked(r))],
        ["Without a mask", (r) => short(dense(r))],
      ],
    },
  });
}
