/** Guarantee: what one worker meets at the provider holds for all of them; waiting for it costs a run nothing. */
import { expect, test } from "vitest";
import type { LedgerEntry } from "../../../src/offline/server.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { totalTokens } from "../../../src/shared/protocol/content.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import type { ModelFailure } from "../../../src/worker/model/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage, type StageOptions } from "../../stage/stage.ts";

const done = { content: [{ type: "text" as const, text: "done" }] };
const list = { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }] };
const OUTAGE_MS = Number(process.env.LIMITER_OUTAGE_MS ?? 8_000);
const RUNS = 20;

async function opened(options: StageOptions) {
  const installation = await openStage(options);
  const limiter = createProviderLimiter(installation.redis, installation.keys);
  const tasks = (prompts: readonly string[]) =>
    Promise.all(prompts.map((prompt) => installation.task(prompt)));
  return Object.assign(installation, { limiter, tasks });
}

function numbered(word: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${word} ${i + 1}`);
}

function repliesOf(installation: Stage, agents: readonly Agent[], timeoutMs = 30_000) {
  return Promise.all(agents.map((agent) => installation.reply(agent, 1, timeoutMs)));
}

function recordsOf(installation: Stage, agents: readonly Agent[]) {
  return Promise.all(agents.map((agent) => installation.record(agent)));
}

/** The refusal with this status in the ledger. */
function refusal(installation: Stage, status: number): Promise<LedgerEntry> {
  return until(() => installation.offline.ledger.find((call) => call.http_status === status), {
    what: `a ${status}`,
  });
}

test("a 429 that one worker process met keeps the other from calling until its time is over", async () => {
  const limited = { status: 429, headers: { "retry-after": "4" } };
  const installation = await opened({
    scenario: [
      { match: { user: "unlucky" }, turns: [{ ...done, failures: [limited] }] },
      { turns: [{ ...done, latencyMs: 0 }] },
    ],
  });
  const workers = await Promise.all([installation.spawnWorker(), installation.spawnWorker()]);
  const unlucky = await installation.task("unlucky");
  const { at: refusedAt } = await refusal(installation, 429);
  const released = await installation.recordWhere(unlucky, ({ status }) => status === "queued");
  const witness = workers.find(({ id }) => id === released.worker);
  await witness?.kill();
  const others = await installation.tasks(numbered("lucky", 4));
  const replies = await repliesOf(installation, [unlucky, ...others]);
  expect(replies.map(({ status }) => status)).toEqual(replies.map(() => "succeeded"));
  const calls = installation.offline.ledger.filter(({ status }) => status === "served");
  expect(calls).toHaveLength(5);
  for (const call of calls) expect(call.at - refusedAt).toBeGreaterThanOrEqual(3_990);
  const callers = new Set((await recordsOf(installation, [unlucky, ...others])).map(({ worker }) => worker));
  expect([...callers]).toEqual(workers.filter((worker) => worker !== witness).map(({ id }) => id));
});

test("after a refusal calls begin one by one: never more at once than have succeeded since, and one", async () => {
  const latencyMs = 150;
  const limited = { status: 429, headers: { "retry-after": "1" } };
  const installation = await opened({
    scenario: [
      { match: { user: "unlucky" }, turns: [{ ...done, failures: [limited], latencyMs: 0 }] },
      { turns: [{ ...done, latencyMs }] },
    ],
  });
  await installation.startWorker();
  await installation.startWorker();
  const unlucky = await installation.task("unlucky");
  const { at: refusedAt } = await refusal(installation, 429);
  const others = await installation.tasks(numbered("lucky", RUNS));
  await repliesOf(installation, [unlucky, ...others], 18_000);
  const spans = installation.offline.ledger
    .filter(({ at, http_status }) => http_status === 200 && at > refusedAt)
    .map(({ began_at, at }) => ({ from: began_at, to: at }));
  expect(spans.length).toBeGreaterThanOrEqual(RUNS);
  for (const { from } of spans) {
    const atOnce = spans.filter((span) => span.from <= from && from < span.to).length;
    const succeeded = spans.filter((span) => span.to <= from).length;
    expect(atOnce).toBeLessThanOrEqual(succeeded + 1);
  }
  expect(await installation.limiter.list()).toMatchObject([{ state: "slowed", holders: 0 }]);
});

test("the place of a worker that was killed during the only call let through frees itself", async () => {
  const limited = { status: 429, headers: { "retry-after": "1" } };
  const installation = await opened({
    timing: SHORT_TIMING,
    scenario: [
      {
        match: { user: "slow" },
        turns: [{ ...done, failures: [limited, { stream: { stallAfterChunks: 1 } }] }],
      },
      { turns: [done] },
    ],
  });
  const doomed = await installation.spawnWorker();
  const slow = await installation.task("slow");
  await refusal(installation, 429);
  const isHeld = async (holders: number) => (await installation.limiter.list())[0]?.holders === holders;
  await until(() => isHeld(1), { what: "the probe" });
  await until(() => installation.offline.inFlight === 1);
  await doomed.kill();
  await installation.destroy(slow);
  await installation.startWorker();
  const other = await installation.task("other");
  expect(await installation.reply(other)).toMatchObject({ status: "succeeded" });
});

interface Advice {
  words: string;
  seconds: number;
  header?(): string;
}
const IN_THREE_HOURS: Advice = {
  words: "a date in three hours",
  seconds: 3 * 3_600 - 1,
  header: () => new Date(Date.now() + 3 * 3_600_000).toUTCString(),
};

test.for<Advice>([{ words: "600 s", seconds: 600 }, IN_THREE_HOURS, { words: "six hours", seconds: 21_600 }])(
  "a retry-after of $words frees the slot, is honoured, and costs those who wait nothing",
  async ({ seconds, header = () => String(seconds) }) => {
    const limited = { status: 429, headers: { "retry-after": header() } };
    const installation = await opened({
      scenario: [
        { match: { user: "limited" }, turns: [list, { ...done, error: limited }] },
        { turns: [done] },
      ],
    });
    await installation.startWorker({ concurrency: 1 });
    const refusedAt = Date.now();
    const limitedRun = await installation.task("limited");
    await refusal(installation, 429);
    const waiting = await installation.task("waiting");
    const elsewhere = await installation.task("elsewhere", { model: "offline-2" });
    expect(await installation.reply(elsewhere)).toMatchObject({ status: "succeeded" });
    const [first, second] = await Promise.all(
      [limitedRun, waiting].map((agent) =>
        installation.recordWhere(agent, ({ status, wake }) => status === "queued" && wake > 1),
      ),
    );
    expect(first).toMatchObject({ attempts: 1, progress: { turns: 1 } });
    expect(second).toMatchObject({ attempts: 0, running_ms: 0 });
    expect(second?.progress?.turns ?? 0).toBe(0);
    const notBefore = Number(
      await installation.redis.hget(installation.keys.agent(waiting).record, "not_before"),
    );
    expect(notBefore - refusedAt).toBeGreaterThan(50_000);
    expect(notBefore - refusedAt).toBeLessThan(80_000);
    const [limiter] = await installation.limiter.list();
    expect(limiter).toMatchObject({ state: "closed", reason: "rate_limited", holders: 0 });
    expect(Date.parse(limiter?.until ?? "") - refusedAt).toBeGreaterThanOrEqual(seconds * 1_000 - 1_000);
    expect(installation.offline.ledger).toHaveLength(3);
  },
);

function failedOne(installation: Stage, agents: readonly Agent[]): Promise<Agent> {
  return until(
    async () => {
      const records = await recordsOf(installation, agents);
      return agents.find((_, i) => records[i]?.ended_reason === "failed");
    },
    { what: "a failed run" },
  );
}

test("a run that has asked a closed limiter again and again has used no time, no attempt and no turn", async () => {
  const limited = { status: 429, headers: { "retry-after": "3600" } };
  const installation = await opened({
    timing: { ...TIMING, limiterAskMs: 2_100 },
    scenario: [{ match: { user: "limited" }, turns: [{ ...done, error: limited }] }, { turns: [done] }],
  });
  await installation.startWorker();
  await installation.task("limited");
  await refusal(installation, 429);
  const waiting = await installation.task("waiting");
  const asked = await installation.recordWhere(
    waiting,
    ({ wake, status }) => status === "queued" && wake > 3,
  );
  expect(asked).toMatchObject({ attempts: 0, running_ms: 0 });
  expect(asked.progress?.turns ?? 0).toBe(0);
  expect(asked.epoch).toBeGreaterThanOrEqual(3);
  expect(installation.offline.ledger).toHaveLength(1);
});

const DENIED = { turns: [list, { ...done, error: { status: 401 } }] };
const ACCEPTED = { turns: [list, done] };

test.for([401, 403])(
  "%i fails the run that finds it; nine others wait and succeed once the key is good",
  async (status) => {
    const timing = { ...TIMING, breakerMs: 1_000, longestBreakerMs: 2_000 };
    const denied = { turns: [list, { ...done, latencyMs: 100, error: { status } }] };
    const installation = await opened({ scenario: denied, timing });
    await installation.startWorker();
    const worker = await installation.startWorker();
    const agents = await installation.tasks(numbered("run", 10));
    const failed = await failedOne(installation, agents);
    const others = agents.filter((agent) => agent !== failed);
    expect(await installation.reply(failed)).toMatchObject({ status: "failed", stop_reason: "model_error" });
    // Two probes are refused meanwhile.
    const refusals = () => installation.offline.ledger.filter(({ http_status }) => http_status === status);
    const firstWave = refusals().length;
    await until(() => refusals().length >= firstWave + 2, { what: "refused probes" });
    expect(await installation.limiter.list()).toMatchObject([{ state: "denied" }]);
    expect(await worker.readiness()).toMatchObject({
      ready: false,
      redis: "ready",
      reasons: [expect.stringMatching(/the provider refuses the credential/)],
    });
    installation.offline.setScenario(ACCEPTED);
    const replies = await repliesOf(installation, others, 20_000);
    expect(replies.map((reply) => [reply.status, reply.turns])).toEqual(others.map(() => ["succeeded", 2]));
    expect(installation.offline.ledger.filter(({ turn }) => turn === 0)).toHaveLength(10);
    expect(await installation.limiter.list()).toEqual([]);
    expect(await worker.readiness()).toMatchObject({ ready: true, reasons: [] });
  },
);

test("workers with another key go on at once with the runs that wait for a refused one", async () => {
  const timing = { ...TIMING, limiterAskMs: 1_000, breakerMs: 600_000 };
  const installation = await opened({ scenario: DENIED, timing });
  const old = await installation.startWorker();
  const agents = await installation.tasks(numbered("run", 5));
  const failed = await failedOne(installation, agents);
  const others = agents.filter((agent) => agent !== failed);
  installation.offline.setScenario(ACCEPTED);
  await old.stop();
  const model = createAnthropicModel({ apiKey: "a new key", baseUrl: installation.offline.url });
  closeAtEnd(() => model.stop());
  const worker = await installation.startWorker({ model });
  const replies = await repliesOf(installation, others);
  expect((await worker.readiness()).reasons).toEqual([]);
  expect(replies.map(({ status }) => status)).toEqual(others.map(() => "succeeded"));
  const [limiter, ...rest] = await installation.limiter.list();
  expect(limiter).toMatchObject({ state: "denied", reason: "authentication" });
  expect(rest).toEqual([]);
  expect(JSON.stringify(await installation.redis.keys(`*${installation.prefix}*limiter*`))).not.toContain(
    "key",
  );
});

/** What the parents of these agents used, in tokens. */
async function tokensUsed(installation: Stage, agents: readonly Agent[]): Promise<number> {
  const parents = [...new Set(agents.map(({ parentId }) => parentId))];
  const used = await Promise.all(parents.map((parentId) => installation.parent(parentId).usage()));
  return used.reduce((sum, { tokens }) => sum + tokens, 0);
}

/** `LIMITER_OUTAGE_MS=3600000` makes it an hour; back-offs are those of production then. */
test(
  `an outage (529) of ${OUTAGE_MS / 1_000} s loses no run, buys no turn again, and costs few calls and no token`,
  async () => {
    const isShort = OUTAGE_MS < 60_000;
    const longestBackoffMs = isShort ? 2_000 : TIMING.longestLimiterBackoffMs;
    const away = (latencyMs: number) => ({ turns: [list, { ...done, latencyMs, error: { status: 529 } }] });
    const installation = await opened({
      // Every run is in its second call when the first refusal comes.
      scenario: away(3_000),
      timing: { ...TIMING, longestLimiterBackoffMs: longestBackoffMs },
    });
    await installation.startWorker();
    await installation.startWorker();
    const agents = await installation.tasks(numbered("run", RUNS));
    await refusal(installation, 529);
    installation.offline.setScenario(away(20));
    expect(installation.offline.ledger.filter(({ status }) => status === "served")).toHaveLength(RUNS);
    await systemClock.sleep(OUTAGE_MS);
    const refused = installation.offline.ledger.filter(({ http_status }) => http_status === 529).length;
    const waiting = await recordsOf(installation, agents);
    expect(waiting.map(({ status }) => status)).not.toContain("ended");
    installation.offline.setScenario(ACCEPTED);
    const replies = await repliesOf(installation, agents, 20_000 + 4 * longestBackoffMs);
    expect(replies.map(({ status, turns }) => [status, turns])).toEqual(agents.map(() => ["succeeded", 2]));
    const served = installation.offline.ledger.filter(({ status }) => status === "served");
    expect(served.map(({ turn }) => turn).sort()).toEqual([...agents.map(() => 0), ...agents.map(() => 1)]);
    const billed = served.reduce((sum, { usage }) => sum + (usage ? totalTokens(usage) : 0), 0);
    expect(await tokensUsed(installation, agents)).toBe(billed);
    const longestRunMs = Math.max(...replies.map(({ duration_ms }) => duration_ms));
    console.log(
      `outage of ${OUTAGE_MS / 1_000} s: ${RUNS} runs, 0 lost, ${refused} calls refused, longest running time ${longestRunMs} ms`,
    );
    expect(refused).toBeGreaterThan(RUNS);
    // What was in flight at first, then probes: each closes the limiter for half its back-off at least.
    expect(refused).toBeLessThanOrEqual(RUNS + 8 + OUTAGE_MS / (longestBackoffMs / 2));
    // The wait is no running time. Of a few seconds a busy machine takes as many for the calls themselves: "has used no time" holds it there.
    if (!isShort) expect(longestRunMs).toBeLessThan(OUTAGE_MS / 2);
  },
  OUTAGE_MS + 600_000,
);

test("the place of a call that broke off without an end is free when its lease is over, though its worker lives", async () => {
  const installation = await opened({ timing: SHORT_TIMING });
  const failure: ModelFailure = { kind: "rate_limited", retryable: true, message: "slower" };
  let calls = 0;
  const worker = await installation.startWorker({
    model: {
      async call() {
        calls += 1;
        if (calls === 1) return { status: "failed", failure };
        throw new Error("a model that does not keep its word");
      },
      stop: async () => {},
    },
  });
  const agent = await installation.task("unlucky");
  await until(() => calls === 2, { what: "the probe" });
  await until(() => worker.active().length === 0, { what: "the hand-back" });
  await until(async () => (await installation.limiter.list())[0]?.holders === 0, {
    what: "a free place at a limiter that is still slowed",
    timeoutMs: 2 * SHORT_TIMING.leaseMs,
  });
  expect(await installation.record(agent)).toMatchObject({ status: "queued" });
});
