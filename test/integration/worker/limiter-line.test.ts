/** Guarantee: a limit that is over holds up no run: those that wait come back while there is room, not by appointment. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { run } from "../../../src/worker/run/run.ts";
import { providerLimitOf, runContextOf } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const DAY_MS = 24 * 3_600_000;
const done = { content: [{ type: "text" as const, text: "done" }], latencyMs: 0 };
const list = {
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }],
  latencyMs: 0,
};

test("runs at the end of a line that is a day long are through as soon as the provider takes calls", async () => {
  const limited = { status: 429, headers: { "retry-after": "600" } };
  const installation = await openStage({
    scenario: [
      { match: { user: "unlucky" }, turns: [{ ...done, failures: [limited] }] },
      { turns: [list, done] },
    ],
  });
  const { redis, keys } = installation;
  const limiter = createProviderLimiter(redis, keys);
  await installation.startWorker();
  await installation.task("unlucky");
  const [name = ""] = await until(async () => {
    const names = (await limiter.list()).map((each) => each.name);
    return names.length > 0 && names;
  });
  const line = keys.limiterWaiting(name);
  const dayFromNow = (await redisNowMs(redis)) + DAY_MS;
  await redis.zadd(line, dayFromNow, "t/p/ended");
  const agents = await Promise.all(["a", "b", "c", "d"].map((prompt) => installation.task(prompt)));
  await until(async () => (await redis.zcount(line, dayFromNow, "+inf")) === agents.length + 1);
  await redis.hset(keys.limiter(name), "until", await redisNowMs(redis));
  const replies = await Promise.all(agents.map((agent) => installation.reply(agent)));
  expect(replies.map(({ status, turns }) => [status, turns])).toEqual(agents.map(() => ["succeeded", 2]));
});

test("a run says at the limiter whether it has made a call, and who it is", async () => {
  const installation = await openStage({ scenario: { turns: [list, done] }, timing: LONG_TIMING });
  const agent = await installation.task("work");
  const asked: unknown[] = [];
  const provider = providerLimitOf(installation, systemClock, {
    async acquire(_name, who, how) {
      asked.push([who, how]);
      return { status: "open", enteredAt: 0, holdsSlot: false };
    },
  });
  await run(runContextOf(installation, { provider }), { address: agent, wake: 1, timesTaken: 1 });
  const who = `${agent.tenant}/${agent.parentId}/${agent.uid}`;
  expect(asked).toEqual([
    [who, { resumes: false }],
    [who, { resumes: true }],
  ]);
});

test("a run that calls another model of its chain leaves the line of the first", async () => {
  const installation = await openStage({ scenario: { turns: [done] }, timing: LONG_TIMING });
  const agent = await installation.task("work", { fallback_models: ["other-model"] });
  const left: unknown[] = [];
  const provider = providerLimitOf(installation, systemClock, {
    acquire: async (name) =>
      name.endsWith("/other-model")
        ? { status: "open", enteredAt: 0, holdsSlot: false }
        : { status: "wait", waitMs: 60_000, reason: "overloaded" },
    async release(name, who, _admission, { outcome }) {
      left.push([name.split("/").at(-1), who, outcome]);
      return "left";
    },
  });
  await run(runContextOf(installation, { provider }), { address: agent, wake: 1, timesTaken: 1 });
  const who = `${agent.tenant}/${agent.parentId}/${agent.uid}`;
  expect(left).toEqual([[(await installation.record(agent)).spec.model, who, "neutral"]]);
});
