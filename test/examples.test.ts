/** Every example runs as a process of its own, with the offline model, and prints what `examples/output/` says. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
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

test.for(names)("%s prints what its output file says", { timeout: 60_000 }, async (name) => {
  const example = await spawnNode(`examples/${name}`, {
    env: {
      REDIS_URL: redisUrl(),
      ANTHROPIC_API_KEY: undefined,
      ANTHROPIC_BASE_URL: undefined,
      NO_COLOR: "1",
    },
  });
  expect(await example.closed, example.stderr.join("\n")).toEqual({ code: 0, signal: null });
  const expected = readFileSync(join(EXAMPLES, "output", name.replace(/ts$/, "txt")), "utf8");
  expect(`${example.stdout.map(withoutPlace).join("\n")}\n`).toBe(expected);
  expect(example.stderr).toEqual([]);
});
