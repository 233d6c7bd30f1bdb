/**
 * Every example prints, with the offline model, what `examples/output/` says: the first as a process of its own, the others in this one,
 * which has the packages loaded. `EXAMPLES=processes` runs each as a process.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { format } from "node:util";
import { expect, test, vi } from "vitest";
import { closeAtEnd } from "./helpers/cleanup.ts";
import { spawnNode } from "./helpers/processes.ts";
import { redisUrl } from "./helpers/redis.ts";

const EXAMPLES = join(import.meta.dirname, "..", "examples");
const MAX_LINES = 60;
const names = readdirSync(EXAMPLES).filter((name) => /^\d\d-.*\.ts$/.test(name));

/** Two things differ from checkout to checkout: where it lies, and so how many tokens its paths make. */
function withoutPlace(line: string): string {
  return line.replaceAll(EXAMPLES, "<examples>").replace(/\b\d+ tokens\b/g, "<n> tokens");
}

test("each has an output file, and is short enough to be read at a glance", () => {
  expect(names.map((name) => name.replace(/ts$/, "txt"))).toEqual(readdirSync(join(EXAMPLES, "output")));
  for (const name of names) {
    expect(readFileSync(join(EXAMPLES, name), "utf8").split("\n").length, name).toBeLessThanOrEqual(
      MAX_LINES,
    );
  }
});

const separate = names.slice(0, process.env.EXAMPLES === "processes" ? names.length : 1);

/** Lines of standard output and of standard error. */
interface Printed {
  stdout: readonly string[];
  stderr: readonly string[];
}

function expectOutput(name: string, { stdout, stderr }: Printed): void {
  const expected = readFileSync(join(EXAMPLES, "output", name.replace(/ts$/, "txt")), "utf8");
  expect(`${stdout.map(withoutPlace).join("\n")}\n`).toBe(expected);
  expect(stderr).toEqual([]);
}

test.for(separate)("%s ends by itself and prints what its output file says", async (name) => {
  const env = { ANTHROPIC_API_KEY: undefined, ANTHROPIC_BASE_URL: undefined, NO_COLOR: "1" };
  const example = await spawnNode(`examples/${name}`, { env: { ...env, REDIS_URL: redisUrl() } });
  expect(await example.closed, example.stderr.join("\n")).toEqual({ code: 0, signal: null });
  expectOutput(name, example);
});

/** Keeps what is said to a person while the test runs. */
function recordOutput(): Printed {
  const printed = { stdout: [] as string[], stderr: [] as string[] };
  const keep =
    (lines: string[]) =>
    (...words: unknown[]) =>
      void lines.push(...format(...words).split("\n"));
  vi.spyOn(console, "log").mockImplementation(keep(printed.stdout));
  vi.spyOn(console, "warn").mockImplementation(keep(printed.stderr));
  vi.spyOn(console, "error").mockImplementation(keep(printed.stderr));
  const warned = ({ message }: Error) => void printed.stderr.push(message);
  process.on("warning", warned);
  closeAtEnd(() => {
    process.off("warning", warned);
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });
  return printed;
}

test.for(names.filter((name) => !separate.includes(name)))(
  "%s prints what its output file says",
  async (name) => {
    vi.stubEnv("REDIS_URL", redisUrl());
    vi.stubEnv("ANTHROPIC_API_KEY", undefined);
    const printed = recordOutput();
    await import(join(EXAMPLES, name));
    expectOutput(name, printed);
  },
);
