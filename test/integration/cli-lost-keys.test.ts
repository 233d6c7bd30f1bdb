/** Guarantee: a key whose making got no answer does not stay unseen: it is removed again, or named. */
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { openFaultLine } from "../helpers/fault-line.ts";
import { runHere } from "../helpers/program.ts";
import { openStage } from "../stage/stage.ts";

/** An installation whose keys are made over a connection that is cut behind the key; `isAway`: every later one is cut too. */
async function scene(isAway: boolean) {
  const { redis, keys, prefix, url } = await openStage();
  let isCut = false;
  const line = await openFaultLine(Number(new URL(url).port), ([name = "", key]) => {
    if (isCut && isAway) return "cut before";
    if (isCut || name.toLowerCase() !== "hset" || key !== keys.apiKeys) return "passes";
    isCut = true;
    return "cut after";
  });
  const say = (REDIS_URL: string, ...args: string[]) =>
    runHere(args, { cwd: tmpdir(), env: { REDIS_URL, SUBAGENT_PREFIX: prefix } });
  return {
    overLine: (...args: string[]) => say(line, ...args),
    directly: (...args: string[]) => say(url, ...args),
    ids: () => redis.hkeys(keys.apiKeys),
  };
}

test("a key whose making got no answer is removed, and the name is free", async () => {
  const { overLine, ids } = await scene(false);
  const { code, stdout, stderr } = await overLine("keys", "create", "billing");
  expect({ code, stdout }).toEqual({ code: 3, stdout: [] });
  expect(stderr.join()).toMatch(/subagent-queue: Redis at \S+ closed the connection: /);
  expect(await ids()).toEqual([]);
  expect(await overLine("keys", "create", "billing")).toMatchObject({ code: 0 });
});

test("a second key whose making got no answer is removed, and the first one stays", async () => {
  const { overLine, directly, ids } = await scene(false);
  expect(await directly("keys", "create", "billing")).toMatchObject({ code: 0 });
  const [first = ""] = await ids();
  expect(await overLine("keys", "rotate", first)).toMatchObject({ code: 3 });
  expect(await ids()).toEqual([first]);
});

test("a key that can be removed no more is named", async () => {
  const { overLine, directly, ids } = await scene(true);
  const { code, stdout, stderr } = await overLine("keys", "create", "billing");
  expect({ code, stdout }).toEqual({ code: 3, stdout: [] });
  const [id = "none"] = await ids();
  expect(stderr.join()).toMatch(new RegExp(`unknown whether the key ${id} was made, .* revoke it if `));
  expect(await directly("keys", "revoke", id)).toMatchObject({ code: 0 });
});
