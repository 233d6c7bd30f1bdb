/** The cost of importing the package, as its users get it, above a bare Node. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { span, table } from "./figures.ts";
import type { Bench } from "./measures.ts";

/** Directory from which the package's own `exports` lead its name to `dist/`. */
const ROOT = join(import.meta.dirname, "..");
const IMPORTS = ["subagent-queue", "subagent-queue/worker"];

/** Resources of a process from its start until its import is done. */
interface Spent {
  wallMs: number;
  cpuMs: number;
  rssMb: number;
}

/** Measures imports in fresh processes, a bare one in each round. */
export async function importCost({ options: { rounds = 9 } }: Pick<Bench, "options">): Promise<string[]> {
  const found = new Map<string, Spent[]>(IMPORTS.map((name) => [name, []]));
  for (const name of ["", ...IMPORTS]) spentOn(name); // The first read of the files is not measured.
  for (let round = 0; round < rounds; round++) {
    const bare = spentOn("");
    for (const name of round % 2 === 0 ? IMPORTS : IMPORTS.toReversed())
      found.get(name)?.push(above(spentOn(name), bare));
  }
  const lines = [...found].map(([name, spent]) => [
    `\`${name}\``,
    span(spent.map(({ wallMs }) => wallMs)),
    span(spent.map(({ cpuMs }) => cpuMs)),
    span(spent.map(({ rssMb }) => rssMb)),
  ]);
  return [
    "## Import",
    "",
    `The built package in fresh processes, above a bare Node of the same round; medians (min–max) of ${rounds} rounds. Goal for the first: ≤ 120 ms of CPU, ≤ 25 MB.`,
    "",
    ...table(["import", "ms", "CPU ms", "RSS MB"], lines),
  ];
}

function above(spent: Spent, bare: Spent): Spent {
  return {
    wallMs: spent.wallMs - bare.wallMs,
    cpuMs: spent.cpuMs - bare.cpuMs,
    rssMb: spent.rssMb - bare.rssMb,
  };
}

/** Starts a Node that imports the named module, if any, and says what it has used since its start. */
function spentOn(name: string): Spent {
  const code = `${name && `await import(${JSON.stringify(name)});`}
    const wallMs = performance.now(), { user, system } = process.cpuUsage(), rssMb = process.memoryUsage.rss() / 2 ** 20;
    process.stdout.write(JSON.stringify({ wallMs, cpuMs: (user + system) / 1_000, rssMb }), () => process.exit());`;
  const { NODE_OPTIONS: _, ...env } = process.env;
  const said = execFileSync(process.execPath, ["--input-type=module", "-e", code], {
    cwd: ROOT,
    env,
    encoding: "utf8",
  });
  return JSON.parse(said) as Spent;
}
