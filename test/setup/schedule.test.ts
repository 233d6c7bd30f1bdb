import { existsSync } from "node:fs";
import { join } from "node:path";
import { globSync } from "tinyglobby";
import { expect, test } from "vitest";
import { inTurns, LONG, SOLITARY } from "./schedule.ts";

const ROOT = join(import.meta.dirname, "../..");

test("files that wait and files that compute take turns, each kind in its order", () => {
  const files = [
    "test/integration/worker/takeover.test.ts",
    "test/integration/worker/caps.test.ts",
    "test/e2e/cli.test.ts",
    "test/integration/worker/alerts.test.ts",
    "test/unit/shared/clock.test.ts",
  ];
  expect(inTurns(files, (path) => path)).toEqual([
    "test/integration/worker/takeover.test.ts",
    "test/e2e/cli.test.ts",
    "test/integration/worker/caps.test.ts",
    "test/unit/shared/clock.test.ts",
    "test/integration/worker/alerts.test.ts",
  ]);
});

test("the long files of each kind begin first, wherever they stood", () => {
  const files = [
    "test/integration/worker/caps.test.ts",
    "test/unit/shared/clock.test.ts",
    "test/integration/worker/takeover.test.ts",
    "test/e2e/cli.test.ts",
  ];
  expect(inTurns(files, (path) => path)).toEqual([
    "test/integration/worker/takeover.test.ts",
    "test/e2e/cli.test.ts",
    "test/integration/worker/caps.test.ts",
    "test/unit/shared/clock.test.ts",
  ]);
});

test("every long file exists", () => {
  expect(LONG.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

test.for(Object.keys(SOLITARY))("%s, which needs a process of its own, exists", (glob) => {
  expect(globSync(glob, { cwd: ROOT })).not.toEqual([]);
});
