/**
 * Runs the tests on a busy host: endless loops fill its first core. The tests use all cores, or with --one-core only
 * that one. The load must make no test fail.
 *
 * Usage: npm run test:busy -- [--loops <n>] [--runs <n>] [--one-core] [<path>…]; default 12 loops, 5 runs, all tests.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { parseArgs } from "node:util";

const root = join(import.meta.dirname, "..");
const { values, positionals } = parseArgs({
  options: {
    loops: { type: "string", default: "12" },
    runs: { type: "string", default: "5" },
    "one-core": { type: "boolean", default: false },
  },
  allowPositionals: true,
});
const [loops, runs] = [Number(values.loops), Number(values.runs)];
/** Returns a command that runs on the first core, by Linux' `taskset`; its child processes inherit that. */
const onOneCore = (...command) => ["taskset", ["--cpu-list", "0", ...command]];

/** A loop that ends when its starter ends, for any reason. */
const LOOP = "const starter = process.ppid; while (process.ppid === starter);";
const busy = Array.from({ length: loops }, () =>
  spawn(...onOneCore(process.execPath, "-e", LOOP), { stdio: "ignore" }),
);
let tests;
process.once("exit", () => {
  for (const child of [tests, ...busy]) child?.kill("SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));

let failed = 0;
for (let run = 1; run <= runs; run++) {
  process.stdout.write(`\n== run ${run} of ${runs} beside ${loops} endless loops\n`);
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const words = [vitest, "run", ...positionals];
  const command = values["one-core"] ? onOneCore(process.execPath, ...words) : [process.execPath, words];
  tests = spawn(...command, { cwd: root, stdio: "inherit" });
  const [code] = await once(tests, "close");
  if (code !== 0) failed += 1;
}
process.stdout.write(`\n${runs - failed} runs passed, ${failed} failed\n`);
// Without this exit the loops would keep this process running, and so themselves.
process.exit(failed > 0 ? 1 : 0);
