/** Guarantee: requests without room are tried again one behind the other, each in its line, and a line that is over is forgotten. */
import { expect, test } from "vitest";
import { createIntakeQuota, ownerOf } from "../../../../src/service/intake/quota.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { testClient } from "../../../helpers/parents.ts";

function scene() {
  const clock = handClock();
  const told: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void told.push(JSON.parse(line).owner) } });
  return { clock, told, quota: createIntakeQuota(testClient(), clock, logger) };
}

test("requests of one line come 100 ms after each other, and those of another line are not behind them", () => {
  const { clock, quota, told } = scene();
  expect([1, 2, 3].map(() => quota.delayMs("a", 0))).toEqual([600, 700, 800]);
  expect(quota.delayMs("b", 0)).toBe(600);
  expect(quota.delayMs("b", 0, 5)).toBe(605);
  clock.advance(300);
  expect(quota.delayMs("a", 0)).toBe(600);
  expect(told).toEqual(["a", "b"]);
});

test("one that has waited for long is tried more seldom, at least every ten seconds", () => {
  const { quota } = scene();
  expect(quota.delayMs("a", 5_000)).toBe(600);
  expect(quota.delayMs("b", 50_000)).toBe(5_000);
  expect(quota.delayMs("c", 1_000_000)).toBe(10_000);
});

test("no line is longer than an hour", () => {
  const { quota } = scene();
  expect(quota.delayMs("a", 0, 3_000_000)).toBe(3_000_500);
  expect(quota.delayMs("a", 0, 3_000_000)).toBe(3_600_000);
  expect(quota.delayMs("a", 0, 3_000_000)).toBe(3_600_000);
});

test("a line whose last request was tried a minute ago is forgotten, and told of when it begins anew", () => {
  const { clock, quota, told } = scene();
  quota.delayMs("early", 0);
  quota.delayMs("late", 0);
  quota.delayMs("early", 0);
  // The end of the late line is 600 ms ahead, that of the early one 700 ms.
  clock.advance(60_600);
  quota.delayMs("other", 0);
  quota.delayMs("early", 0);
  expect(told).toEqual(["early", "late", "other"]);
  quota.delayMs("late", 0);
  expect(told).toEqual(["early", "late", "other", "late"]);
});

test("the owner of a line is a tenant's parent, or one agent of it", () => {
  const parent = { tenant: "acme", parentId: "shell" };
  expect(ownerOf(parent)).toBe("acme/shell");
  expect(ownerOf(parent, "task")).toBe("acme/shell/task");
});

test("spawns under way take room, ten at once; those that have ended take what Redis says", async () => {
  const { quota } = scene();
  const parent = { tenant: "acme", parentId: "shell" };
  let end = () => {};
  const held = new Promise<void>((resolve) => {
    end = resolve;
  });
  const spawn = (n: number, ends: Promise<void>) =>
    quota.spawnWithin(parent, `key-${n}`, { check: () => {}, spawn: () => ends.then(() => n) });
  // Its end is open: the others find it under way. In Redis this parent has no agent.
  const first = spawn(0, held);
  for (let n = 1; n <= 12; n++) expect(await spawn(n, Promise.resolve())).toBe(n);
  const more = Promise.allSettled(Array.from({ length: 12 }, (_, i) => spawn(20 + i, held)));
  // A refusal comes while the others are under way.
  await expect(spawn(40, held)).rejects.toMatchObject({ code: "quota_exceeded" });
  end();
  expect((await more).filter(({ status }) => status === "fulfilled")).toHaveLength(9);
  expect(await first).toBe(0);
});
