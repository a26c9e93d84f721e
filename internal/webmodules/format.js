// Numbers, shares and times for people.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

// count writes a number in full: 12,345.
export const count = (n) => whole.format(n);

// several writes a number with its noun: 1 step, 3 steps.
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

// short writes a number in about three digits: 12.4M.
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

// bytes writes a number of bytes: 5.4 MiB.
export function bytes(n) {
  for (const [shift, unit] of [[40, "TiB"], [30, "GiB"], [20, "MiB"], [10, "KiB"]]) {
    if (n >= 2 ** shift) return `${digits(n / 2 ** shift)} ${unit}`;
  }
  return `${count(n)} B`;
}

// percent writes a share with as many digits as tell it from others: 40.1 %, 0.055 %.
export function percent(share) {
  const p = share * 100;
  if (p === 0) return "0 %";
  if (p < 0.00001) return "< 0.00001 %";
  return `${p < 9.95 ? p.toFixed(Math.max(0, 1 - Math.floor(Math.log10(p)))) : p.toFixed(1)} %`;
}

// percentTick writes a round share: 40 %.
export const percentTick = (share) => `${Number((share * 100).toPrecision(6))} %`;

// duration writes seconds: 40 ms, 2.5 s, 3 min, 2 h 5 min, 3 d 4 h.
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

// since writes how long ago a time was, by the daemon's clock and not that of whoever looks.
export const elapsed = (time, now) => duration(Math.max((Date.parse(now) - Date.parse(time)) / 1000, 0));

const two = (n) => String(n).padStart(2, "0");

// clock writes a time of day, with its date where that is another one than today's.
export function clock(time, now = Date.now()) {
  const t = new Date(time);
  const at = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  return new Date(now).toDateString() === t.toDateString() ? at : `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${at}`;
}

// daemonName writes a daemon's name without what tells it from one of the same process number: host/process/mark.
export const daemonName = (name) => name.split("/").slice(0, 2).join("/");

// named writes a document: its sequence, with its source where the run has several, and with its index in a message that holds several.
export const documentName = (d) => `${d.source ? `${d.source}/` : ""}${d.sequence}${d.index === undefined ? "" : `#${d.index}`}`;

// begins is the token of its document with which a piece begins; start counts the tokens of the message.
export const startInDocument = (p) => p.start_within ?? p.start;
