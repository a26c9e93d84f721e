// Formats numbers, shares, durations and times.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

// count formats a number in full: 12,345.
export const count = (n) => whole.format(n);

// plural formats a number with its noun: 1 step, 3 steps.
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

// short formats a number with about three digits: 12.4M.
export function short(n) {
  if (!Number.isFinite(n)) return "?";
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(n) >= size) return digits(n / (letter === "k" ? 1e3 : size)) + letter;
  }
  return Math.abs(n) >= 100 || Number.isInteger(n) ? count(n) : digits(n);
}

function digits(n) {
  const a = Math.abs(n);
  return n.toFixed(a >= 100 ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : a === 0 ? 0 : 3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

// bytes formats a number of bytes: 5.4 MiB.
export function bytes(n) {
  for (const [shift, unit] of [[40, "TiB"], [30, "GiB"], [20, "MiB"], [10, "KiB"]]) {
    if (n >= 2 ** shift) return `${digits(n / 2 ** shift)} ${unit}`;
  }
  return `${count(n)} B`;
}

// percent formats a share with two significant digits, and from 10 % with one decimal: 40.1 %, 0.055 %.
export function percent(share) {
  const p = share * 100;
  if (p === 0) return "0 %";
  if (p < 0.00001) return "< 0.00001 %";
  return `${p < 9.95 ? p.toFixed(Math.max(0, 1 - Math.floor(Math.log10(p)))) : p.toFixed(1)} %`;
}

// percentTick formats a round share: 40 %.
export const percentTick = (share) => `${Number((share * 100).toPrecision(6))} %`;

// duration formats seconds: 40 ms, 2.5 s, 3 min, 2 h 5 min, 3 d 4 h.
export function duration(s) {
  if (!Number.isFinite(s)) return "?";
  if (s === 0) return "0 s";
  if (s < 0.9995) return `${Number((s * 1000).toPrecision(2))} ms`;
  if (s < 10) return `${digits(s)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return hours % 24 ? `${count(Math.floor(hours / 24))} d ${hours % 24} h` : `${count(hours / 24)} d`;
}

// elapsed formats the duration from time to now. Both are by the daemon's clock, which can differ from the browser's.
export const elapsed = (time, now) => duration(Math.max((Date.parse(now) - Date.parse(time)) / 1000, 0));

const twoDigits = (n) => String(n).padStart(2, "0");

// clock formats a time of day, preceded by its date unless that is the date of now.
export function clock(time, now = Date.now()) {
  const t = new Date(time);
  const at = `${twoDigits(t.getHours())}:${twoDigits(t.getMinutes())}:${twoDigits(t.getSeconds())}`;
  if (new Date(now).toDateString() === t.toDateString()) return at;
  return `${t.getFullYear()}-${twoDigits(t.getMonth() + 1)}-${twoDigits(t.getDate())} ${at}`;
}

// daemonName returns host/process of a daemon's name. It omits the third part, which distinguishes reused process ids.
export const daemonName = (name) => name.split("/").slice(0, 2).join("/");

// documentName formats a document as [SOURCE/]SEQUENCE[#INDEX]. The source is omitted in runs with one source, and the
// index in messages with one document.
export const documentName = (d) =>
  `${d.source ? `${d.source}/` : ""}${d.sequence}${d.index === undefined ? "" : `#${d.index}`}`;

// startInDocument returns the first token of a span within its document. p.start counts the tokens of the message.
export const startInDocument = (p) => p.start_within ?? p.start;
