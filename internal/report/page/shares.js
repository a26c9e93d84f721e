// Plots of shares: sources and short documents over the run, and slots by row length.
import { svg } from "./dom.js";
import { count, percent } from "./format.js";
import { box, curves, percents, perMethod, points, unit } from "./methods.js";
import { inTokens, share } from "./numbers.js";
import { onRamp, ramp } from "./ramp.js";

// sources returns the plot of all sources' shares over the run of each method, stacked, with their targets.
export function sources(report) {
  const names = Object.keys(report.results[0].sources ?? {});
  const results = report.results.filter((r) => names.length && names.every((n) => r.sources[n].shares?.length));
  if (!results.length) return null;
  const few = names.length <= 8; // more target lines would hide the shares
  const targeted = ", and its target in the same twentieth";
  const parts = results[0].sources[names[0]].shares.length;
  const stairs = (values) =>
    values.flatMap((v, k) => [
      [k / parts, 1 - v],
      [(k + 1) / parts, 1 - v],
    ]);
  const paint = (r, y) => {
    let [lower, aim] = [Array(parts).fill(0), Array(parts).fill(0)];
    const areas = [];
    const aims = [];
    names.forEach((name, i) => {
      const s = r.sources[name];
      const upper = lower.map((v, k) => v + s.shares[k]);
      aim = aim.map((v, k) => v + s.targets[k]);
      areas.push(
        svg(
          "polygon",
          {
            class: few && "few",
            fill: ramp(i, names.length),
            points: points([...stairs(upper), ...stairs(lower).reverse()]),
          },
          svg("title", {}, `${name}: ${percent(s.share)}`),
        ),
      );
      if (few && i < names.length - 1)
        aims.push(...["halo", "aim"].map((c) => svg("polyline", { class: c, points: points(stairs(aim)) })));
      lower = upper;
    });
    return [curves(y, 54, ...areas, ...aims)];
  };
  return perMethod(report, results, {
    id: "sources",
    title: "Shares of sources",
    about:
      `Each source's share of the tokens in each twentieth of the run, in order of emission${few ? targeted : ""}. ` +
      "At the right: the largest deviation from a target.",
    data: {
      ...unit,
      each: 64,
      paint,
      number: (r) => percent(Math.max(...names.map((n) => r.sources[n].deviation))),
      legend: [
        ...names.map((name, i) => ({ name, fill: ramp(i, names.length) })),
        ...(few ? [{ name: "targets", kind: "stroke ink" }] : []),
      ],
      table: names.flatMap((n) => [
        [n, (r) => percent(r.sources[n].share)],
        ["Deviation", (r) => percent(r.sources[n].deviation)],
      ]),
    },
  });
}

// rows returns the plot of slots by row length, for methods with several row lengths.
export function rows(report) {
  const results = report.results.filter((r) => r.buckets.length > 1);
  if (!results.length) return null;
  const n = report.rows.length;
  const part = (r, k) => share(r.buckets[k].sequences * r.buckets[k].length, r.slots);
  const paint = (r, y, width) => {
    let from = 0;
    return r.buckets.flatMap((_, k) => {
      const at = from;
      from += part(r, k);
      const text = `${(100 * (from - at)).toFixed(0)} %`;
      return [
        box(
          at,
          from,
          y,
          8,
          { class: "segment", fill: ramp(k, n) },
          svg("title", {}, `${inTokens(r.buckets[k].length)}: ${percent(from - at)}`),
        ),
        (from - at) * width > 7 * text.length + 6 &&
          svg(
            "text",
            { class: "inside", x: percents((at + from) / 2), y: y + 4, "text-anchor": "middle", fill: onRamp(k, n) },
            text,
          ),
      ].filter(Boolean);
    });
  };
  return perMethod(report, results, {
    id: "rows",
    title: "Row lengths",
    about: "Share of the slots in rows of each length, for methods with several row lengths.",
    data: {
      ...unit,
      paint,
      number: () => "",
      legend: report.rows.map((l, k) => ({ name: count(l), fill: ramp(k, n) })),
      table: report.rows.map((l, k) => [`Rows of ${count(l)}`, (r) => percent(part(r, k))]),
    },
  });
}

const band = 0.1; // largest deviation of a fair sample

// samples returns the plot of the share of short documents over the run of each method.
export function samples(report) {
  const results = report.results.filter((r) => r.sample);
  if (!results.length) return null;
  // Deviations above 100 % are drawn as 100 %.
  const most = Math.min(Math.max(...results.map((r) => r.sample.deviation), 2 * band), 1);
  const off = (v) => 0.5 - Math.min(Math.max(v, -most), most) / most / 2;
  const paint = ({ sample: { shares, share: whole } }, y) => [
    curves(
      y,
      28,
      svg("rect", { class: "band", x: 0, width: 1, y: off(band), height: off(-band) - off(band) }),
      svg("polyline", {
        class: "whole",
        points: points([
          [0, 0.5],
          [1, 0.5],
        ]),
      }),
      svg("polyline", {
        class: "m-curve",
        points: points(shares.map((v, k) => [(k + 0.5) / shares.length, off(v / whole - 1)])),
      }),
    ),
  ];
  const { below, share: whole } = results[0].sample;
  return perMethod(report, results, {
    id: "samples",
    title: "Fair samples",
    about:
      `Share of tokens from documents shorter than ${count(below)} in each twentieth of the run, compared with the ` +
      `whole run (${percent(whole)}). All methods share one scale. At the right: the largest deviation.`,
    data: {
      ...unit,
      each: 34,
      paint,
      number: (r) => percent(r.sample.deviation),
      legend: [
        { name: "share in the whole run", kind: "stroke whole" },
        { name: "± 10 %", kind: "band" },
      ],
      table: [
        ["Largest deviation", (r) => percent(r.sample.deviation)],
        ...results[0].sample.shares.map((_, k) => [`${5 * k} to ${5 * k + 5} %`, (r) => percent(r.sample.shares[k])]),
      ],
    },
  });
}
