// Formats the numbers of the plots, and computes the ticks of their axes.
import { count } from "./format.js";
import { powers } from "./scale.js";

export const share = (part, whole) => (whole ? part / whole : 0);

// round formats a round number of an axis: 20k.
export const round = (n) => {
  const [size, letter] = [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ].find(([size]) => n >= size) ?? [1, ""];
  return `${Number((n / size).toPrecision(6))}${letter}`;
};

// inTokens formats a length in tokens. Most row lengths are multiples of 1,024.
export const inTokens = (n) => (n >= 1024 && n % 1024 === 0 ? `${n / 1024}k` : count(n));

export const hundredths = (v) => (v > 0 && v < 0.1 ? String(Number(v.toPrecision(2))) : v.toFixed(2));
export const thousandths = (v) => v.toFixed(3);

// decades and doublings return ticks of logarithmic axes.
export const decades = (low, high) => powers(low, high, Infinity, 10);
export const doublings = (low, high) => powers(low, high, Infinity);
