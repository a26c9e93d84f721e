// The figures of a comparison. Each is {id, title, about, kind, data}; those that would show nothing are left out.
import { count, percent, percentTick, short } from "./format.js";
import { lengths } from "./lengths.js";
import { box, dot, line, perMethod, quantileLegend, quantiles } from "./methods.js";
import { decades, doublings, hundredths, inTokens, round, share } from "./numbers.js";
import { counts, zipf } from "./related.js";
import { scale, scaleFromZero, ticks } from "./scale.js";
import { rows, samples, sources } from "./shares.js";

// figures returns those of a report, in the order in which they are shown.
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
    "Slots that hold no token, each of them computed for nothing. Logarithmic.",
    (r) => r.padding_ratio,
  );

const split = (report) =>
  lollipops(
    report,
    "split",
    "Documents split",
    `Documents cut into several pieces; ${percent(report.lengths.longer)} are longer than the longest row. ` +
      "Logarithmic.",
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
      "What a method leaves out or trains on twice on purpose. Logarithmic.",
      value,
    )
  );
}

// lollipops shows shares, which lie decades apart.
function lollipops(report, id, title, about, value) {
  const all = report.results.map(value);
  const low = 10 ** Math.floor(Math.log10(Math.min(...all.filter((v) => v > 0), 0.01) * 1.0000001));
  const high = Math.max(...all, 10 * low);
  const place = scaleFromZero(low, high);
  return perMethod(report, report.results, {
    id,
    title,
    about,
    data: {
      place,
      ticks: [0, ...decades(low, high)],
      tickText: percentTick,
      number: (r) => percent(value(r)),
      paint: (r, y) => [line(0, place(value(r)), y), dot(place(value(r)), y)],
      table: [["Share", (r) => percent(value(r))]],
    },
  });
}

const documents = (report) =>
  bars(
    report,
    "documents",
    "Documents a row",
    "Documents that share a row in the mean. The more there are, the more of an unmasked attention goes between " +
      "strangers.",
    (r) => r.concatenation_ratio,
    hundredths,
  );

const speed = (report) =>
  bars(
    report,
    "speed",
    "Speed",
    "Documents packed a second on one core of the machine that made this page.",
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
      place: (v) => v / most,
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
  const place = scaleFromZero(1, most);
  const age = (r, q) => r.ages.find((a) => a.share === q).age;
  const paint = (r, y) => {
    const at = (q) => place(age(r, q));
    return [line(at(0), at(1), y), line(at(1), at(1), y, { y1: y - 6, y2: y + 6 }), ...quantiles(at, y)];
  };
  return perMethod(report, report.results, {
    id: "ages",
    title: "How long documents wait",
    about:
      "Documents that arrive between a document's arrival and its last token's emission. At the right: " +
      "median / oldest. Logarithmic.",
    data: {
      place,
      ticks: [0, ...decades(1, most)],
      tickText: round,
      paint,
      number: (r) => `${count(r.age_median)} / ${count(r.age_max)}`,
      legend: [...quantileLegend("documents"), { name: "all", kind: "stroke" }],
      table: report.results[0].ages.map((a) => [
        a.share === 1 ? "Oldest" : `${percentTick(a.share)} up to`,
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
  const place = scale(low, high, 0, 1, true);
  return perMethod(report, report.results, {
    id: "attention",
    title: "Attention",
    about:
      "Tokens that a token attends to, in the mean: what attention costs. At the right: the masked cost as a share " +
      "of the unmasked one. Logarithmic.",
    data: {
      place,
      ticks: doublings(low, high),
      tickText: inTokens,
      number: (r) => percent(share(r.attention_cost, r.attention_cost_unmasked)),
      paint: (r, y) =>
        r.tokens
          ? [
              line(place(masked(r)), place(dense(r)), y, { class: "span" }),
              dot(place(dense(r)), y, { class: "ring" }),
              dot(place(masked(r)), y),
            ]
          : [],
      legend: [
        { name: "with the document mask", kind: "ball gray" },
        { name: "without a mask", kind: "ball ring" },
      ],
      table: [
        ["With the mask", (r) => short(masked(r))],
        ["Without", (r) => short(dense(r))],
      ],
    },
  });
}
