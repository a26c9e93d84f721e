// Sequential colors, from the blue to the yellow of viridis. They also differ in lightness.

const stops = [
  [0x46, 0x3f, 0x8a],
  [0x31, 0x6c, 0x8e],
  [0x21, 0x96, 0x8a],
  [0x5e, 0xc1, 0x62],
  [0xdc, 0xd8, 0x3b],
];

const interpolate = (k, n) => {
  const at = (k / Math.max(n - 1, 1)) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  return stops[i].map((a, j) => Math.round(a + (at - i) * (stops[i + 1][j] - a)));
};

// ramp returns color k of n, from dark to light.
export const ramp = (k, n) => `rgb(${interpolate(k, n).join(" ")})`;

// onRamp returns a readable text color on ramp(k, n).
export const onRamp = (k, n) => {
  const [r, g, b] = interpolate(k, n);
  return 0.299 * r + 0.587 * g + 0.114 * b > 120 ? "#111" : "#fff";
};
