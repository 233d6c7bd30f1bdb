/**
 * The tests on a busy machine: endless loops fill its first core, the tests have all cores, or with --one-core that
 * one only. Nothing may fail for it.
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
/** The first core of the machine, by Linux' `taskset`; what it starts inherits it. */
const onOneCore = (...command) => ["taskset", ["--cpu-list", "0", ...command]];

/** Ends with whoever started it, however that ends. */
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
// The loops would keep this process, and with it themselves, for ever.
process.exit(failed > 0 ? 1 : 0);
