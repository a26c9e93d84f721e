// Axes: ticks of a range, and scales from values to positions.

// ticks returns at most n round numbers from low to high.
export function ticks(low, high, n) {
  if (!(high > low)) return [low];
  const rough = (high - low) / n;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * size).find((s) => (high - low) / s <= n) ?? 10 * size;
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) out.push(i * step || 0); // never -0
  return out;
}

// powers returns the powers of a base from low to high, at most n of them.
export function powers(low, high, n, base = 2) {
  const exponent = (v) => Math.log(v) / Math.log(base);
  const out = [];
  const from = Math.ceil(exponent(low) - 1e-9);
  const to = Math.floor(exponent(high) + 1e-9);
  const every = Math.max(1, Math.ceil((to - from + 1) / n));
  for (let i = from; i <= to; i += every) out.push(base ** i);
  return out;
}

// spaced returns the largest evenly spaced subset of the ticks whose labels do not overlap. It keeps the last tick, and
// a zero at the beginning.
export function spaced(ticks, position, text) {
  const room = (a, b) => position(b) - position(a) - 3.5 * (text(a).length + text(b).length) >= 10;
  const zero = ticks[0] === 0;
  for (let every = 1; every < ticks.length; every++) {
    const some = ticks.filter((v, i) => (ticks.length - 1 - i) % every === 0 || (i === 0 && zero));
    if (zero && some.length > 2 && !room(some[0], some[1])) some.splice(1, 1);
    if (some.every((v, i) => i === 0 || room(some[i - 1], v))) return some;
  }
  return ticks.slice(-1);
}

// intervals lists the candidate tick distances of a time axis, in seconds.
const intervals = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600,
];

// times returns at most n round times, in milliseconds, in the browser's time zone.
export function times(low, high, n) {
  const step = 1000 * (intervals.find((s) => (high - low) / (1000 * s) <= n) ?? intervals.at(-1));
  const shift = new Date(low).getTimezoneOffset() * 60000;
  const out = [];
  for (let t = Math.ceil((low - shift) / step) * step + shift; t <= high; t += step) out.push(t);
  return out;
}

const outlier = 2; // values above this multiple of the 95th percentile are outliers

// robustMax returns the highest value of an axis that values should be within. If the maximum is an outlier, it is a
// multiple of the 95th percentile of the positive values, else slightly more than the maximum.
export function robustMax(values) {
  const sorted = values.filter((v) => v > 0).sort((a, b) => a - b);
  const [usual, most] = [sorted[Math.floor(0.95 * (sorted.length - 1))] ?? 0, sorted.at(-1) ?? 0];
  return most > outlier * usual ? 1.3 * usual : 1.08 * most;
}

// scale returns a function that maps values between low and high to positions between `from` and `to`.
export function scale(low, high, from, to, log = false) {
  const f = log ? Math.log : (v) => v;
  const width = f(high) - f(low);
  return (v) => (width ? from + ((f(v) - f(low)) / width) * (to - from) : (from + to) / 2);
}

const gap = 0.1; // fraction of the axis between zero and the smallest positive value

// scaleFromZero returns a logarithmic scale from 0 to 1 that also has a position for zero, at its start.
export function scaleFromZero(low, high) {
  const log = scale(low, high, gap, 1, true);
  return (v) => (v <= 0 ? 0 : high > low ? log(Math.max(v, low)) : 1);
}
