import { readFileSync } from "node:fs";
import { globSync } from "tinyglobby";
import { expect, test } from "vitest";
import { CLUSTER_SUBSET, CLUSTER_SUITE, NOT_ON_A_CLUSTER } from "./cluster-suite.ts";

test("what runs on the cluster exists, the quick part is part of the whole, and what is left out is about single servers", () => {
  const whole = globSync([...CLUSTER_SUITE]);
  const leftOut = Object.keys(NOT_ON_A_CLUSTER);
  for (const pattern of CLUSTER_SUBSET) expect(globSync(pattern), pattern).not.toEqual([]);
  expect(
    globSync([...CLUSTER_SUBSET]).filter((path) => !whole.includes(path) || leftOut.includes(path)),
  ).toEqual([]);
  for (const path of leftOut)
    expect(readFileSync(path, "utf8"), path).toMatch(
      /startPrivateRedis|startProxy|open(?:Fault|Redis)Line|database|setImmediate/,
    );
});
