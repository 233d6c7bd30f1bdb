// Prints a table over time, plots and verdicts, and writes `soak.svg`, `soak.txt` and `soak.json` into --out. Exits with code 1
// if a verdict fails.
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { messageOf } from "../../src/shared/errors.ts";
import { TIMING } from "../../src/shared/protocol/limits.ts";
import { closeAll } from "../helpers/cleanup.ts";
import { svgOf, textPlot } from "./plot.ts";
import { plotsOf, TABLE_HEAD, tableLines } from "./rows.ts";
import { runSoak } from "./run.ts";

const USAGE =
  "Usage: npm run test:soak -- [--minutes 120] [--fault-every 30] [--sample-every 10] [--seed N] [--pace 500] [--out dir]";

const refuse = (problem: string): never => {
  process.stderr.write(`${problem}\n${USAGE}\n`);
  process.exit(2);
};
function readArguments() {
  const numbers = {
    minutes: { type: "string", default: "120" },
    "fault-every": { type: "string", default: "30" },
    "sample-every": { type: "string", default: "10" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    pace: { type: "string", default: "500" },
  } as const;
  try {
    return parseArgs({ options: { ...numbers, out: { type: "string" } } }).values;
  } catch (error) {
    return refuse(messageOf(error));
  }
}
const values = readArguments();
const number = (name: Exclude<keyof typeof values, "out">) => {
  const value = Number(values[name]);
  if (Number.isFinite(value) && value > 0) return value;
  return refuse(`--${name} must be a number above 0, not ${values[name]}.`);
};
const [minutes, seed, out] = [number("minutes"), number("seed"), values.out];
const RETENTION_MS = Math.min(300_000, minutes * 15_000);
const lines: string[] = [];
const say = async (line: string) => {
  process.stdout.write(`${line}\n`);
  lines.push(line);
  if (out) await appendFile(join(out, "soak.txt"), `${line}\n`);
};
if (out) {
  await mkdir(out, { recursive: true });
  await writeFile(join(out, "soak.txt"), "");
}
await say(
  `soak: ${minutes} min, a fault every ${number("fault-every")} s, seed ${seed}, from ${new Date().toISOString()}`,
);
await say(TABLE_HEAD);
let shown = -1;
const report = await runSoak({
  durationMs: minutes * 60_000,
  faultEveryMs: number("fault-every") * 1_000,
  leastStrikes: 0,
  sampleEveryMs: number("sample-every") * 1_000,
  seed,
  mortals: 2,
  paceMs: number("pace"),
  retentionMs: RETENTION_MS,
  timing: TIMING,
  leakBytesPerS: 0,
  onRow(row) {
    const minute = Math.floor(row.hours * 60);
    if (minute === shown) return;
    shown = minute;
    for (const line of tableLines(row)) void say(line);
  },
  onNews: (sentence) => void say(sentence),
});
await closeAll();
const plots = plotsOf(report.rows, report.marks);
for (const plot of plots) await say(`\n${textPlot(plot)}`);
const struck = report.strikes.map(({ fault }) => fault);
const kinds = [...new Set(struck)].map((kind) => `${struck.filter((one) => one === kind).length} ${kind}`);
const hit = report.strikes.filter((strike) => strike.hit > 0).length;
await say(`\n${struck.length} faults (${kinds.join(", ")}), ${hit} of them where runs were going on`);
for (const { what, verdict, figure } of report.verdicts)
  await say(`${verdict.padEnd(18)} ${what}: ${figure}`);
if (out) {
  await writeFile(join(out, "soak.svg"), svgOf(plots));
  const rows = report.rows.map((row) => ({ ...row, processes: Object.fromEntries(row.processes) }));
  await writeFile(join(out, "soak.json"), JSON.stringify({ ...report, rows }));
}
process.exitCode = report.verdicts.some(({ verdict }) => verdict === "fails") ? 1 : 0;
