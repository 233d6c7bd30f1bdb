/**
 * Guarantee: a run whose chain of models has two providers says which of them it waits for, why, since when and until when: the
 * one whose wait is over first, and the time since when neither has answered.
 */
import { expect, test } from "vitest";
import { createOfflineModel, type Scenario } from "../../../src/offline/server.ts";
import type { ReplyBody } from "../../../src/shared/protocol/reply.ts";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../../src/worker/model/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { freePort } from "../../helpers/redis-server.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, LONG_TIMING, openStage } from "../../stage/stage.ts";

const HOUR_MS = 3_600_000;
const [FIRST, LAST] = ["claude-sonnet-4-5", "claude-haiku-4-5"];
const CHAIN = { model: FIRST, fallback_models: [LAST] };
const done = { content: [{ type: "text" as const, text: "done" }] };
const limited = (status: 429 | 529, seconds: number) => ({
  status,
  headers: { "retry-after": `${seconds}` },
});

/** The model of a worker with two providers: the last model of the chain is the other one's. */
function modelOfTwo(firstUrl: string, lastUrl: string): Model {
  const [first, last] = [firstUrl, lastUrl].map((baseUrl) => {
    const model = createAnthropicModel({ apiKey: "offline", baseUrl });
    closeAtEnd(() => model.stop());
    return model;
  }) as [Model, Model];
  const of = (id: string) => (id === LAST ? last : first);
  return {
    call: (request, control) => of(request.model).call(request, control),
    limiterName: (id) => of(id).limiterName?.(id) ?? id,
    stop: async () => {},
  };
}

/** A worker of two providers, each with its scenario; a first provider without one cannot be reached. */
async function openTwo(first: Scenario | undefined, last: Scenario, random = 0) {
  const stage = await openStage({
    ...(first && { scenario: first }),
    timing: { ...LONG_TIMING, limiterAskMs: HOUR_MS },
  });
  const other = createOfflineModel({ scenario: last });
  await other.start();
  closeAtEnd(() => other.stop());
  const urls = [first ? stage.offline.url : `http://127.0.0.1:${await freePort()}`, other.url] as const;
  const providers = urls.map((url) => new URL(url).host);
  await stage.startWorker({ model: modelOfTwo(...urls), random: () => random });
  const waitOf = async (agent: Agent, provider = "") => {
    const parent = stage.parent(agent.parentId);
    return until(async () => {
      const { provider_wait } = await parent.get(agent.agentId);
      return provider_wait?.provider.includes(provider) && provider_wait;
    });
  };
  return { stage, providers, waitOf };
}

test.each([
  ["first", 20, 300, "rate_limited"],
  ["last", 300, 20, "overloaded"],
] as const)(
  "while both providers limit its calls a run waits for the %s, whose limit ends before the other's",
  async (which, first, last, reason) => {
    const { stage, providers, waitOf } = await openTwo(
      { turns: [{ ...done, failures: [limited(429, first)] }] },
      { turns: [{ ...done, failures: [limited(529, last)] }] },
    );
    const provider = providers[which === "first" ? 0 : 1];
    const finder = await stage.task("meet both", CHAIN);
    const found = await waitOf(finder);
    const other = await waitOf(await stage.task("meet none", CHAIN));
    for (const wait of [found, other]) {
      expect(wait).toMatchObject({ provider, reason });
      const waitMs = Date.parse(wait.next_try_at) - Date.parse(wait.since);
      expect(waitMs).toBeGreaterThan(10_000);
      expect(waitMs).toBeLessThan(30_000);
    }
  },
);

test("a run that waited for one provider and then for the other says since when neither has answered", async () => {
  const { stage, providers, waitOf } = await openTwo(
    { turns: [{ ...done, failures: [limited(429, 3), limited(429, 600)] }] },
    { turns: [{ ...done, failures: [limited(529, 300)] }] },
  );
  const agent = await stage.task("work", CHAIN);
  const first = await waitOf(agent, providers[0]);
  const then = await waitOf(agent, providers[1]);
  expect(first).toMatchObject({ reason: "rate_limited" });
  expect(then).toMatchObject({ reason: "overloaded", since: first.since });
  expect(Date.parse(then.next_try_at)).toBeGreaterThan(Date.parse(first.next_try_at));
  const limiter = createProviderLimiter(stage.redis, stage.keys);
  const [{ name } = { name: "" }] = await limiter.list(providers[1]);
  await stage.redis.hset(stage.keys.limiter(name), "until", await redisNowMs(stage.redis));
  const reply: Partial<ReplyBody> = await stage.reply(agent);
  expect(reply.model).toBe(LAST);
  const timeline = await stage.parent(agent.parentId).timeline(agent.agentId);
  const released = timeline.flatMap((event) => (event.type === "released" ? [event.reason] : []));
  expect(released).toEqual(["rate_limited", "overloaded"]);
  expect(await stage.record(agent)).not.toHaveProperty("provider_wait");
});

test("a run that backs off from one provider and then from the other names each, since the first", async () => {
  const outOfOrder = { status: 500 };
  const { stage, providers, waitOf } = await openTwo(
    undefined,
    { turns: [{ ...done, failures: Array(9).fill(outOfOrder) }] },
    0.6,
  );
  const agent = await stage.spawn(CHAIN);
  // The next failure is the fourth in a row: its back-off is longer than a worker holds a run for.
  await stage.redis.hset(stage.keys.agent(agent).record, "attempts", 3);
  await stage.send(agent, "work");
  const last = await waitOf(agent, providers[1]);
  const first = await waitOf(agent, providers[0]);
  expect(last).toMatchObject({ reason: "server_error" });
  expect(first).toMatchObject({ reason: "network", since: last.since });
});
