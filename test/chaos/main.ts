// npm run test:chaos -- --runs 1000 --kills 200 --seed 1: one chaos run and its report. Exit code 1 if a guarantee is broken.
import { closeAll } from "../helpers/cleanup.ts";
import { runChaos } from "./harness.ts";
import { parseOptions, USAGE } from "./options.ts";
import { reportOf } from "./report.ts";

const say = (line: string) => process.stdout.write(`${line}\n`);

const asksForHelp = process.argv.includes("--help");
const parsed = parseOptions(process.argv.slice(2), Date.now() % 1_000_000);
if (asksForHelp) {
  say(`Usage: ${USAGE}`);
} else if (parsed.status === "invalid") {
  process.stderr.write(`${parsed.problem}\nUsage: ${USAGE}\n`);
  process.exitCode = 2;
} else {
  say(parsed.options.command);
  try {
    const verdict = await runChaos(parsed.options, say);
    say(reportOf(parsed.options, verdict));
    if (verdict.violations.length > 0) process.exitCode = 1;
  } finally {
    await closeAll();
  }
}
