/** Guarantee: an agent_id can be read, typed and used as the name of a directory, whatever name the agent has. */
import { expect, test } from "vitest";
import { slugOf } from "../../../../src/shared/protocol/ids.ts";

test.for([
  ["Data Collector", "data_collector"],
  ["  ¡Señor Ünder-Söüß!  ", "senor_under_sou"],
  ["__init__", "init"],
  ["(a) & (b)", "a_b"],
  ["ｆｕｌｌ ｗｉｄｔｈ", "full_width"],
  ["2026", "agent"],
  ["日本語", "agent"],
  ["../../etc", "etc"],
] as const)("%s is %s", ([name, slug]) => expect(slugOf(name)).toBe(slug));

test("a long name is cut, and never ends at a separator", () => {
  const slugs = Array.from({ length: 60 }, (_, i) => slugOf(`${"a".repeat(i)} ${"b".repeat(80)}`));
  for (const slug of slugs) expect(slug).toMatch(/^[a-z0-9](?:[a-z0-9_]*[a-z0-9])?$/);
  expect(new Set(slugs.map(({ length }) => length)).size).toBeLessThanOrEqual(2);
});
