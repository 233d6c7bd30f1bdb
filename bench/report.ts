/** Writes results to `docs/benchmarks.md`: a new result replaces the section of its part, other sections stay. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";

const FILE = join(import.meta.dirname, "..", "docs", "benchmarks.md");
/** What the benchmark does not measure; printed after every run, and part of the head of the file. */
export const NOT_MEASURED = [
  "Not measured: a real provider, TLS, a network between the processes, several machines, a Redis Cluster, tools that take time,",
  "the CPU of Postgres; nor what has no section here. DBOS and LangGraph are measured where Postgres is installed. A load far above the",
  "number of cores disturbs every figure, and short-lived processes have spent much of their time on compiling themselves: measure on",
  "an idle machine.",
].join("\n");

const HEAD = [
  "# Benchmarks",
  "",
  "Written by `npm run bench -- --write`, the backlog with `--depths=100,100000`. Processes and Redis share one machine, the model is",
  "scripted and answers at once. Ratios to the naive loop of the same round hold between machines; absolute times, rates and latencies",
  "do not.",
  "",
  NOT_MEASURED,
].join("\n");

/** Returns the circumstances of a measurement. A load above the number of cores means that other work disturbed it. */
export function circumstances(): string {
  const [load = 0] = loadavg();
  const day = new Date().toISOString().slice(0, 10);
  return `${day}, Node ${process.version}, ${availableParallelism()} cores, load ${load.toFixed(1)} at the end.`;
}

/** Writes a section; its first line is its heading. */
export function writeSection(lines: readonly string[]): void {
  const sections = new Map<string, string>();
  for (const section of existsSync(FILE)
    ? readFileSync(FILE, "utf8")
        .split(/^(?=## )/m)
        .slice(1)
    : [])
    sections.set(section.slice(0, section.indexOf("\n")), section.trim());
  sections.set(lines[0] ?? "", [...lines, "", circumstances()].join("\n"));
  writeFileSync(FILE, `${[HEAD, ...sections.values()].join("\n\n")}\n`);
}
