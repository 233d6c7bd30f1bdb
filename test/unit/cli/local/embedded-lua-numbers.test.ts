import fc from "fast-check";
import { Redis } from "ioredis";
import { createRedisLuaRuntime, RedisServerState } from "js-redis-server/core";
import { beforeAll, expect, test } from "vitest";
import { writeLuaNumbersExactly } from "../../../../src/cli/local/embedded-lua-numbers.ts";
import { cases } from "../../../helpers/cases.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { startTestEmbedded } from "../../../helpers/embedded-redis.ts";

let redis: Redis;

beforeAll(async () => {
  redis = new Redis((await startTestEmbedded()).url);
  closeAtEnd(() => redis.disconnect());
});

const run = (script: string, ...args: (string | number)[]) => redis.eval(script, 0, ...args);
/** What a command gets when a script hands it the number written as `text`. */
const handed = (text: string) => run("return redis.call('PING', tonumber(ARGV[1]))", text);

test("every finite number reaches a command without losing a bit", async () => {
  // JavaScript writes -0 as "0", so it never leaves this process.
  const finite = fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0);
  await fc.assert(
    fc.asyncProperty(finite, async (number) => {
      expect(Number(await handed(String(number)))).toBe(number);
    }),
    { numRuns: cases(300) },
  );
});

test("whole numbers are written in plain digits up to the largest safe one", async () => {
  await fc.assert(
    fc.asyncProperty(fc.maxSafeInteger(), async (number) => {
      expect(await handed(String(number))).toBe(String(number));
    }),
    { numRuns: cases(300) },
  );
});

test("pcall hands numbers on as exactly as call", async () => {
  expect(await run("return redis.pcall('PING', 1730000000123456)")).toBe("1730000000123456");
});

test("strings of digits, empty strings and bytes of any kind pass as they are", async () => {
  expect(await run("return redis.call('PING', '0.10')")).toBe("0.10");
  expect(await run("return redis.call('PING', '')")).toBe("");
  expect(await run("return redis.call('PING', '\\0\\255') == '\\0\\255' and 'same'")).toBe("same");
});

test("a command may have thousands of arguments, holes are no arguments", async () => {
  const push = "local t = {} for i = 1, 7000 do t[i] = i end return redis.call('RPUSH', 'long', unpack(t))";
  expect(await run(push)).toBe(7_000);
  await expect(run("return redis.call('PING', nil)")).rejects.toThrow("must be strings or integers");
});

test("the rest of the redis table is there, and errors name the script's own lines", async () => {
  expect(await run("return { redis.sha1hex(''), redis.LOG_WARNING }")).toEqual([
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    3,
  ]);
  expect(await run("return redis.status_reply('FINE')")).toBe("FINE");
  await expect(run("local x = 1\nreturn y")).rejects.toThrow("user_script:2:");
  await expect(run("return redis.call('INCR', 'long')")).rejects.toThrow("WRONGTYPE");
  expect(await run("return redis.pcall('INCR', 'long')['err'] ~= nil and 'caught'")).toBe("caught");
});

test("a script that is called by its digest again and again stays exact", async () => {
  const digest = String(await redis.script("LOAD", "return redis.call('PING', 0.1 + 0.2)"));
  const answers = await Promise.all([1, 2, 3].map(() => redis.evalsha(digest, 0)));
  expect(answers.map(Number)).toEqual([0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2]);
});

test("a server that makes a new Lua runtime for each script is refused, for the change would be lost", async () => {
  class Forgetful extends RedisServerState {
    override getLuaRuntime() {
      return createRedisLuaRuntime(this.profile);
    }
  }
  const state = new Forgetful();
  closeAtEnd(() => state.close());
  await expect(writeLuaNumbersExactly(state)).rejects.toMatchObject({ code: "setup_failed" });
});
