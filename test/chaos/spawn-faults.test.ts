/** Guarantee: a spawn that fails behind the answer of its verb says what that answer was: nothing was done, or an agent is there. */
import { expect, test } from "vitest";
import { MAX_LIVE_AGENTS } from "../../src/shared/protocol/limits.ts";
import { luaSource } from "../../src/shared/redis/scripts.ts";
import { openFaultLine } from "../helpers/fault-line.ts";
import { started, testClient, testParent } from "../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

/** A parent, and the same one over a line that loses every read of a spawn once it is away, and no script. */
async function scene() {
  const prefix = uniquePrefix();
  let isAway = false;
  const line = await openFaultLine(Number(new URL(redisUrl()).port), ([name = ""]) =>
    isAway && ["hkeys", "hget", "hgetall"].includes(name.toLowerCase()) ? "cut before" : "passes",
  );
  const far = testParent(await started(testClient({ prefix, redisUrl: line })));
  const loseReads = () => {
    isAway = true;
  };
  return { near: testParent(testClient({ prefix })), far, loseReads };
}

test("a spawn over the quota that cannot read whose places are taken says that nothing was done", async () => {
  const { near, far, loseReads } = await scene();
  for (let i = 0; i < MAX_LIVE_AGENTS; i++) await near.spawn({ name: "a" });
  loseReads();
  await expect(far.spawn({ name: "b" })).rejects.toMatchObject({ code: "redis_unavailable" });
});

test("a repeated spawn that cannot read its agent does not say that nothing was done: the agent is there", async () => {
  const { near, far, loseReads } = await scene();
  const input = { name: "a", request_key: "k" };
  await near.spawn(input);
  loseReads();
  await expect(far.spawn(input)).rejects.toMatchObject({
    code: "outcome_unknown",
    details: { request_key: "k" },
  });
});

test("a new connection brings both scripts of a spawn: in one flight Redis must miss neither", async () => {
  const loaded: string[] = [];
  const line = await openFaultLine(Number(new URL(redisUrl()).port), ([name = "", , script = ""]) => {
    if (name.toLowerCase() === "script") loaded.push(script);
    return "passes";
  });
  await started(testClient({ prefix: uniquePrefix(), redisUrl: line }));
  await until(() => loaded.length === 2);
  expect(loaded).toEqual(expect.arrayContaining([luaSource("deadline-hint"), luaSource("spawn")]));
});
