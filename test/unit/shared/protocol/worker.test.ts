import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { BASE_TOOLS } from "../../../../src/shared/protocol/worker.ts";

test("the guide names the tools that every worker has, and no other", () => {
  const guide = readFileSync(new URL("../../../../docs/guide.md", import.meta.url), "utf8");
  const [, list = ""] = /Every worker has ([^;]+);/.exec(guide) ?? [];
  expect([...list.matchAll(/`(\w+)`/g)].map(([, name]) => name)).toEqual([...BASE_TOOLS]);
});
