// Colours of heads, of values and of the two themes.

// OKLCH → #rrggbb (Ottosson 2020), chroma lowered until the colour exists.
function oklch(light, chroma, hue) {
  for (let c = chroma; ; c -= 0.01) {
    const [a, b] = [c * Math.cos(hue * Math.PI / 180), c * Math.sin(hue * Math.PI / 180)];
    const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const linear = [
      4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
      -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ];
    if (c > 0 && linear.some((v) => v < -0.001 || v > 1.001)) continue;
    const coded = linear.map((v) => {
      const x = Math.min(1, Math.max(0, v));
      return Math.round(255 * (x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055));
    });
    return "#" + coded.map((v) => v.toString(16).padStart(2, "0")).join("");
  }
}

// One colour per head, as many as there are: hues around the circle, neighbours a step of lightness
// apart, which also tells them apart where hues look alike.
function headColours(count, dark) {
  const steps = dark ? [0.8, 0.66, 0.9] : [0.62, 0.46, 0.72];
  return Array.from({ length: count }, (_, i) =>
    oklch(steps[i % 3], i % 3 === 2 ? 0.13 : 0.18, (25 + i * 360 / count) % 360));
}

const THEMES = {
  light: {
    ground: "#ffffff", ink: "#1c2126", faint: "#5b656e", line: "#d5dade", soft: "#f2f4f6",
    accent: "#0b62b5", plus: "#0b62b5", minus: "#b84c00", mark: "#ffe9a8", gap: "#e4e7ea",
  },
  dark: {
    ground: "#14181c", ink: "#e6e9ec", faint: "#9aa5ae", line: "#343c44", soft: "#1d2329",
    accent: "#6cb6ff", plus: "#6cb6ff", minus: "#ff9b54", mark: "#5a4a12", gap: "#2a3138",
  },
};

function themeOf(state) {
  const dark = state.theme === "dark"
    || (state.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  return dark ? "dark" : "light";
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// A palette as a function of a share from 0 to 1.
function palette(text) {
  const count = text.length / 6;
  const colours = Array.from({ length: count }, (_, i) => "#" + text.slice(6 * i, 6 * i + 6));
  const numbers = colours.map(rgb);
  const at = (share) => Math.round(Math.min(1, Math.max(0, share)) * (count - 1));
  return { css: (share) => colours[at(share)], rgb: (share) => numbers[at(share)] };
}

// Two colours around the ground, for differences from −1 to 1.
function diverging(theme) {
  const [ground, plus, minus] = [theme.ground, theme.plus, theme.minus].map(rgb);
  const mix = (share) => {
    const [end, s] = [share < 0 ? minus : plus, Math.min(1, Math.abs(share)) ** 0.7];
    return ground.map((g, i) => Math.round(g + (end[i] - g) * s));
  };
  const css = (share) => "#" + mix(share).map((v) => v.toString(16).padStart(2, "0")).join("");
  return { rgb: mix, css };
}

// Black or white, whichever reads better on a colour.
function inkOn(hex) {
  const [r, g, b] = rgb(hex).map((v) => (v / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.36 ? "#101418" : "#ffffff";
}
