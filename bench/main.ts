/**
 * The benchmark: `npm run bench`; `-- --help` tells its options.
 *
 * It measures the CPU of the worker's process per model call as a ratio to the naive loop of the same round (variants
 * alternate, so that a noisy host disturbs all of them alike), how that grows with turns and results, the import, the load
 * of Redis, and the duration of a task. `report.ts` says what it does not measure.
 */
import { growth } from "./growth.ts";
import { importCost } from "./import-cost.ts";
import { type Bench, burst, depth, latency, leftBehind, memory } from "./measures.ts";
import { type PartName, readOptions, USAGE, UsageError } from "./options.ts";
import { ratio } from "./ratio.ts";
import { NOT_MEASURED, writeSection } from "./report.ts";
import { startModel, startRedis } from "./rig.ts";

/** Each measures a part and resolves to the lines of its section, the heading first. */
const MEASURES: Readonly<Record<PartName, (bench: Bench) => Promise<string[]>>> = {
  ratio,
  growth,
  import: importCost,
  latency,
  burst,
  depth,
  memory,
  leftBehind,
};

function optionsOrExit() {
  try {
    const options = readOptions(process.argv.slice(2));
    if (options) return options;
    process.stdout.write(USAGE);
    process.exit(0);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`${error.message}\n\n${USAGE}`);
    process.exit(2);
  }
}

const options = optionsOrExit();
const broken: string[] = [];
const redis = await startRedis();
const bench: Bench = { redis, model: await startModel(), options, fail: (line) => void broken.push(line) };
for (const part of options.parts) {
  const section = await MEASURES[part](bench);
  process.stdout.write(`${section.join("\n")}\n\n`);
  // Each section is written at once, so that a failure of the next part does not lose it.
  if (options.write) writeSection(section);
}
process.stdout.write(`${NOT_MEASURED}\n`);
for (const each of broken) process.stderr.write(`failed: ${each}\n`);
process.exit(broken.length > 0 ? 1 : 0);
