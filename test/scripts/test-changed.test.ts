import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { globSync } from "tinyglobby";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const SCRIPT = join(ROOT, "scripts/test-changed.mjs");

/** The tests that would run for these changed paths. Rejects where the script fails. */
async function testsFor(...paths: string[]): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, "--list", ...paths]);
  return stdout.split("\n").filter(Boolean);
}

test("a changed script runs the tests of the verbs that bear its name or find bugs in it", async () => {
  const tests = await testsFor("src/shared/redis/lua/settle.lua");
  expect(tests).toContain("test/integration/verbs/settle.ages.test.ts");
  expect(tests).toContain("test/integration/verbs/left-behind.test.ts");
  expect(tests).not.toContain("test/integration/verbs/webhook-slot.test.ts");
  expect(tests.filter((path) => !path.startsWith("test/integration/verbs/"))).toEqual([]);
});

test("a script that no test is known to hold runs all tests of the verbs, but for those that run long", async () => {
  const tests = await testsFor("src/shared/redis/lua/a-new-verb.lua");
  const verbs = globSync("test/integration/verbs/*.test.ts", { cwd: ROOT });
  const long = ["interleaving", "cluster"].map((name) => `test/integration/verbs/${name}.test.ts`);
  expect(tests).toEqual(verbs.filter((path) => !long.includes(path)).sort());
});

test("a changed source runs its own unit tests and the architecture", async () => {
  const tests = await testsFor("src/worker/loop/next.ts");
  expect(tests).toContain("test/unit/worker/loop/next.test.ts");
  expect(tests).toContain("test/architecture.test.ts");
  expect(tests.length).toBeLessThan(10);
});

test("of the unit tests of its room, a changed source runs those that import it by any way", async () => {
  const tests = await testsFor("src/shared/protocol/reply.ts");
  expect(tests).toContain("test/unit/shared/protocol/reply.test.ts");
  expect(tests).toContain("test/unit/shared/protocol/log.test.ts");
  expect(tests).not.toContain("test/unit/shared/http-server.test.ts");
});

test("a changed test file runs itself", async () => {
  const own = "test/scripts/test-changed.test.ts";
  expect(await testsFor(own)).toEqual([own]);
});

test("every source and every script has a test near it", async () => {
  const sources = globSync(["src/**/*.{ts,mts,lua}"], { cwd: ROOT });
  const tests = await testsFor(...sources);
  expect(sources.length).toBeGreaterThan(100);
  expect(tests.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

test("a source without any test near it fails instead of looking green", async () => {
  await expect(testsFor("src/nowhere/to-be-found.ts")).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("src/nowhere/to-be-found.ts"),
  });
});
