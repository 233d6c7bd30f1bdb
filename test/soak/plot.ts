/** Plots measurements over time as text and as SVG. Pure. */
import type { Point } from "./judge.ts";

/** One line of a plot. */
export interface Series {
  name: string;
  points: readonly Point[];
}

/** One plot; `marks` are the times of faults, hours since the beginning. */
export interface Plot {
  title: string;
  series: readonly Series[];
  marks: readonly number[];
}

const WIDTH = 72;
const HEIGHT = 8;
const GLYPHS = ["●", "○", "×", "+"];

interface Frame {
  untilX: number;
  lowY: number;
  highY: number;
}

function frameOf({ series }: Plot): Frame {
  const points = series.flatMap((one) => one.points);
  const ys = points.map(({ y }) => y);
  const [low, high] = [ys.reduce((a, b) => Math.min(a, b), Infinity), ys.reduce((a, b) => Math.max(a, b), 0)];
  const untilX = points.reduce((a, { x }) => Math.max(a, x), 0);
  return { untilX: untilX || 1, lowY: Math.min(low, high), highY: high > low ? high : low + 1 };
}

/** Returns the plot as text, with the faults marked below. */
export function textPlot(plot: Plot): string {
  const { untilX, lowY, highY } = frameOf(plot);
  const rows = Array.from({ length: HEIGHT }, () => Array.from({ length: WIDTH }, () => " "));
  const column = (x: number) => Math.min(WIDTH - 1, Math.max(0, Math.floor((x / untilX) * WIDTH)));
  for (const [i, { points }] of plot.series.entries()) {
    for (const { x, y } of points) {
      const row = HEIGHT - 1 - Math.round(((y - lowY) / (highY - lowY)) * (HEIGHT - 1));
      const cells = rows[row];
      if (cells) cells[column(x)] = GLYPHS[i % GLYPHS.length] ?? "*";
    }
  }
  const struck = Array.from({ length: WIDTH }, () => "─");
  for (const x of plot.marks) struck[column(x)] = "┴";
  const label = (y: number) => y.toFixed(1).padStart(9);
  const legend = plot.series.map(({ name }, i) => `${GLYPHS[i % GLYPHS.length]} ${name}`).join("  ");
  const lines = rows.map((cells, i) => {
    const axis = i === 0 ? label(highY) : i === HEIGHT - 1 ? label(lowY) : " ".repeat(9);
    return `${axis} │${cells.join("").trimEnd()}`;
  });
  return [
    `${plot.title}   ${legend}`,
    ...lines,
    `${" ".repeat(9)} └${struck.join("")}`,
    `${" ".repeat(11)}0${`${(untilX * 60).toFixed(1)} min`.padStart(WIDTH - 1)}   (┴ fault)`,
  ].join("\n");
}

const PANEL = { width: 900, height: 200, left: 70, top: 30, bottom: 30 };
const COLOURS = ["#1f6feb", "#bf3989", "#1a7f37", "#9a6700"];

/** Returns an SVG file with all plots below each other. */
export function svgOf(plots: readonly Plot[]): string {
  const panels = plots.map(
    (plot, i) => `<g transform="translate(0 ${i * PANEL.height})">${panelOf(plot)}</g>`,
  );
  const size = `width="${PANEL.width}" height="${plots.length * PANEL.height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
${panels.join("\n")}
</svg>
`;
}

function panelOf(plot: Plot): string {
  const { untilX, lowY, highY } = frameOf(plot);
  const [right, floor] = [PANEL.width - 20, PANEL.height - PANEL.bottom];
  const across = (x: number) => (PANEL.left + (x / untilX) * (right - PANEL.left)).toFixed(1);
  const up = (y: number) => (floor - ((y - lowY) / (highY - lowY)) * (floor - PANEL.top)).toFixed(1);
  const lines = plot.series.map(({ points }, i) => {
    const path = points.map(({ x, y }) => `${across(x)},${up(y)}`).join(" ");
    return `<polyline fill="none" stroke="${COLOURS[i % COLOURS.length]}" points="${path}"/>`;
  });
  const legend = plot.series.map(
    ({ name }, i) =>
      `<text x="${PANEL.left + 260 + i * 160}" y="18" fill="${COLOURS[i % COLOURS.length]}">${escaped(name)}</text>`,
  );
  const marks = plot.marks.map(
    (x) => `<line x1="${across(x)}" x2="${across(x)}" y1="${floor}" y2="${floor + 6}" stroke="#cf222e"/>`,
  );
  return [
    `<text x="10" y="18" font-weight="bold">${escaped(plot.title)}</text>`,
    ...legend,
    `<text x="5" y="${PANEL.top + 6}">${highY.toFixed(1)}</text><text x="5" y="${floor}">${lowY.toFixed(1)}</text>`,
    `<path d="M${PANEL.left} ${PANEL.top}V${floor}H${right}" fill="none" stroke="#888"/>`,
    `<text x="${right - 70}" y="${floor + 20}">${(untilX * 60).toFixed(1)} min</text>`,
    ...marks,
    ...lines,
  ].join("\n");
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
