import type { Reporter, TestModule } from "vitest/node";

const LISTED = 12;
/** Minimum total time of a run (ms); a shorter run prints no report. */
const WORTH_MS = 60_000;

/** Prints the slowest files with their CPU time, which shows whether a file waits or computes. */
export default class SlowestFiles implements Reporter {
  /** Called by vitest once, after everything has run. */
  onTestRunEnd(modules: readonly TestModule[]): void {
    const rows = modules.map((module) => ({
      name: `${module.project.name} ${module.relativeModuleId}`,
      wallMs: module.diagnostic().duration + module.diagnostic().collectDuration,
      cpuMs: module.meta().cpuMs ?? 0,
    }));
    const total = (of: (row: (typeof rows)[number]) => number) => rows.reduce((sum, row) => sum + of(row), 0);
    if (total(({ wallMs }) => wallMs) < WORTH_MS) return;
    const slowest = rows.toSorted((a, b) => b.wallMs - a.wallMs).slice(0, LISTED);
    const lines = slowest.map(({ name, wallMs, cpuMs }) => `${seconds(wallMs)} ${seconds(cpuMs)}  ${name}`);
    const sum = `${seconds(total(({ wallMs }) => wallMs))} ${seconds(total(({ cpuMs }) => cpuMs))}  all ${rows.length} files`;
    process.stdout.write(`\nslowest files (wall, CPU)\n${[...lines, sum].join("\n")}\n`);
  }
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1).padStart(7)} s`;
}
