import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { EMBEDDED_LONG, EMBEDDED_SUBSET } from "./embedded-subset.ts";

test("every file that is to run on the embedded server exists and reaches Redis by its URL", () => {
  const files = [...EMBEDDED_SUBSET, ...EMBEDDED_LONG];
  expect(files.filter((path) => !existsSync(path))).toEqual([]);
  const bound = files.filter((path) =>
    /redisSocket|startPrivateRedis|startRedisServer/.test(readFileSync(path, "utf8")),
  );
  expect(bound).toEqual([]);
});
