/** Guarantee: a worker that stops loses nothing, buys nothing twice, and does stop, whatever Redis does. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { LedgerEntry } from "../../../src/offline/server.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { promptTokens } from "../../../src/shared/protocol/content.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../../src/worker/model/model.ts";
import { DRAIN_GRACE_MS } from "../../../src/worker/pool.ts";
import { run } from "../../../src/worker/run/run.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { reportTime } from "../../helpers/figures.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { beginning, latch } from "../../helpers/latch.ts";
import { redisUrl, serversOf, startPrivateRedis } from "../../helpers/redis.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { livedTime } from "../../helpers/second.ts";
import { until } from "../../helpers/until.ts";
import { openStage, SHORT_TIMING } from "../../stage/stage.ts";

const AGENTS = 20;
/** It would outlast a test. */
const drainGraceMs = 600_000;
/** Interval at which a stopping worker looks whether its Redis is away. */
const LOOKS_EVERY_MS = 100;
const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
const done = { content: [{ type: "text" as const, text: "done" }] };

/** Conversation and turn of every call that was served. */
function servedTurns(ledger: readonly LedgerEntry[]): string[] {
  return ledger
    .filter(({ status }) => status === "served")
    .map(({ conversation, turn }) => `${conversation} ${turn}`);
}

test("a run whose call was cut off by the end of its process is there for another at once", async () => {
  const installation = await openStage({ scenario: { turns: [done] } });
  const agent = await installation.task("work");
  const [draining, abandoned] = [new AbortController(), new AbortController()];
  const model = heldModel(installation, async () => {
    draining.abort();
    abandoned.abort();
  });
  const context = runContextOf(installation, {
    model,
    draining: draining.signal,
    abandoned: abandoned.signal,
  });
  expect(await run(context, { address: agent, wake: 1, timesTaken: 1 })).toEqual({
    status: "released",
    reason: "drain",
  });
});

test("20 runs that drain in the middle of their model calls are finished elsewhere, nothing bought twice", async () => {
  const installation = await openStage({
    scenario: { turns: [list("a"), list("b"), done] },
    latencyMs: 100,
  });
  const [arrived, drains] = [latch(), latch()];
  let purchases = 0;
  const held = new Set<string>();
  // Every run is in its first or in its second call when the worker begins to drain.
  const model = heldModel(installation, ({ messages, purchaseId }) => {
    const isFirst = JSON.parse(`[${messages}]`).length === 1;
    if (isFirst && purchases++ % 2 === 0) return undefined;
    held.add(purchaseId);
    if (held.size === AGENTS) arrived.open();
    return drains.opened;
  });
  const first = await installation.startWorker({
    model,
    drainGraceMs,
    clock: beginning(drainGraceMs, drains),
  });
  const agents = await Promise.all(Array.from({ length: AGENTS }, (_, i) => installation.task(`work ${i}`)));
  await arrived.opened;
  await first.stop();
  const records = await Promise.all(agents.map(installation.record));
  // Handed back once each: a process that stops claims none of them again.
  const states = records.map(({ status, wake }) => `${status} ${wake}`);
  expect(new Set(states)).toEqual(new Set(["queued 2"]));
  // One look for a wake may have been under way; none begins after it.
  const { redis, keys } = installation;
  const takes = await Promise.all(
    agents.map(({ uid }) => redis.hget(`${keys.bullPrefix}:${keys.wakeQueue}:${uid}.2`, "ats")),
  );
  expect(takes.reduce((sum, ats) => sum + Number(ats), 0)).toBeLessThanOrEqual(1);
  await installation.startWorker();
  const replies = await Promise.all(agents.map((agent) => installation.reply(agent)));
  expect(new Set(replies.map(({ status, turns }) => `${status} ${turns}`))).toEqual(new Set(["succeeded 3"]));
  for (const agent of agents) expect(await installation.entries(agent)).toHaveLength(1);
  const served = servedTurns(installation.offline.ledger);
  expect(served).toHaveLength(AGENTS * 3);
  expect(new Set(served).size).toBe(AGENTS * 3);
});

test("a worker that drains gives its grace to its last run as to every other: its call is finished and kept", async () => {
  const installation = await openStage({
    scenario: { turns: [list("a"), done] },
  });
  const [asked, drains] = [latch(), latch()];
  const model = heldModel(installation, () => {
    asked.open();
    return drains.opened;
  });
  const first = await installation.startWorker({
    model,
    drainGraceMs,
    clock: beginning(drainGraceMs, drains),
  });
  const agent = await installation.task("work");
  await asked.opened;
  await first.stop();
  expect(installation.offline.ledger.map(({ status }) => status)).toEqual(["served"]);
  expect(await installation.record(agent)).toMatchObject({ status: "queued", progress: { turns: 1 } });
});

test("calls that take longer than the grace are cut off, handed back at once and charged", async () => {
  const installation = await openStage({
    scenario: {
      turns: [list("a"), { ...done, latencyMs: 0, failures: [{ stream: { stallAfterChunks: 2 } }] }],
    },
  });
  const first = await installation.startWorker({ drainGraceMs: 300 });
  // Of a call that is streamed, as one that is watched is, the provider says at once what it costs.
  const agents = await Promise.all([1, 2, 3].map((i) => installation.watchedTask(`work ${i}`)));
  await until(() => installation.offline.ledger.length === 3 && installation.offline.inFlight === 3);
  const lived = livedTime();
  await first.stop();
  expect(lived.ms).toBeLessThan(DRAIN_GRACE_MS);
  const aborted = installation.offline.ledger.filter(({ status }) => status === "aborted");
  expect(aborted).toHaveLength(3);
  await installation.startWorker();
  let charged = 0;
  for (const agent of agents) {
    const reply = await installation.reply(agent);
    expect(reply).toMatchObject({ status: "succeeded", turns: 2 });
    charged += promptTokens(reply.usage);
    expect(await installation.entries(agent)).toHaveLength(1);
  }
  const bought = installation.offline.ledger.map(({ usage }) => (usage ? promptTokens(usage) : 0));
  expect(bought.filter((tokens) => tokens > 0)).toHaveLength(9);
  expect(charged).toBe(bought.reduce((sum, tokens) => sum + tokens, 0));
});

test("a tool that a stopping worker cuts off has no result: the next worker says that its effect is unknown", async () => {
  const started = latch();
  const endless = defineTool({
    name: "endless",
    description: "Never ends by itself.",
    input: z.object({}),
    async run(_input, { signal }) {
      started.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return "stopped";
    },
  });
  const call = { content: [{ type: "tool_use" as const, name: "endless", input: {} }] };
  const last = { content: [{ type: "text" as const, text: "{{last_tool_result}}" }] };
  const installation = await openStage({ scenario: { turns: [call, last] } });
  const first = await installation.startWorker({ tools: [endless], drainGraceMs: 100 });
  const agent = await installation.task("work");
  await started.opened;
  await first.stop();
  await installation.startWorker({ tools: [endless] });
  const reply = await installation.reply(agent);
  expect(reply).toMatchObject({ status: "succeeded", turns: 2 });
  expect(reply.summary).toContain("effect is unknown");
});

test.for(["killed", "frozen"] as const)("a worker stops although its Redis is %s", async (fate) => {
  const server = await startPrivateRedis();
  const installation = await openStage({
    redis: server,
    scenario: { turns: [{ ...done, latencyMs: 3_600_000 }] },
    timing: SHORT_TIMING,
  });
  const worker = await installation.startWorker({ drainGraceMs: 300 });
  await Promise.all([1, 2, 3].map((i) => installation.task(`work ${i}`)));
  await until(() => installation.offline.inFlight === 3);
  if (fate === "killed") await server.kill();
  else server.freeze();
  const startedMs = performance.now();
  await worker.stop();
  reportTime(`stop with Redis ${fate}`, performance.now() - startedMs, 12_000);
  if (fate === "frozen") server.thaw();
});

test("with Redis away a stopping worker waits for neither its grace nor its calls", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({
    redis: server,
    scenario: { turns: [{ ...done, latencyMs: 3_600_000 }] },
  });
  const worker = await installation.startWorker({ drainGraceMs: 3_600_000 });
  await installation.task("work");
  await until(() => installation.offline.inFlight === 1);
  await server.kill();
  await worker.stop();
  expect(worker.active()).toEqual([]);
});

test("a stopping worker whose Redis is away for a moment waits for it: the answer to a call under way is kept", async () => {
  const installation = await openStage({ redis: "own", proxied: true, scenario: { turns: [done] } });
  const [answered, answers, looked] = [latch(), latch(), latch()];
  const real = heldModel(installation, () => undefined);
  const model: Model = {
    ...real,
    async call(request, control) {
      const outcome = await real.call(request, control);
      answered.open();
      await answers.opened;
      return outcome;
    },
  };
  // The moment is short by the worker's clock, however busy the machine is.
  let stillMs: number | undefined;
  const clock: Clock = {
    ...systemClock,
    monotonicMs: () => stillMs ?? systemClock.monotonicMs(),
    sleep(ms, signal) {
      if (stillMs !== undefined && ms === LOOKS_EVERY_MS) looked.open();
      return systemClock.sleep(ms, signal);
    },
  };
  const worker = await installation.startWorker({ model, drainGraceMs, clock });
  const agent = await installation.task("work");
  await answered.opened;
  installation.proxy.refuse();
  await until(async () => (await worker.readiness()).redis === "away");
  stillMs = systemClock.monotonicMs();
  const stopped = worker.stop();
  await Promise.race([looked.opened, stopped]);
  installation.proxy.heal();
  answers.open();
  await stopped;
  expect(await installation.record(agent)).toMatchObject({ status: "ended", progress: { turns: 1 } });
  expect(installation.offline.ledger.map(({ status }) => status)).toEqual(["served"]);
});

test("a worker that never found its Redis can be stopped", async () => {
  const model = createAnthropicModel({ apiKey: "none", baseUrl: "http://127.0.0.1:9" });
  closeAtEnd(() => model.stop());
  const worker = createWorker({
    redisUrl: "redis://127.0.0.1:9",
    model,
    workspaceRoot: "/nonexistent",
    logger: createLogger({ level: "silent" }),
  });
  const started = worker.start().then(
    () => "started",
    () => "given up",
  );
  await worker.stop();
  expect(await started).toBe("given up");
});

test("a worker that is stopped while it starts says so, and begins nothing more", async () => {
  const { prefix, workspaceRoot } = await openStage();
  const model = createAnthropicModel({ apiKey: "none", baseUrl: "http://127.0.0.1:9" });
  closeAtEnd(() => model.stop());
  const logger = createLogger({ level: "silent" });
  const worker = createWorker({ redisUrl: redisUrl(), prefix, model, workspaceRoot, logger });
  const started = worker.start();
  const stopped = worker.stop();
  await expect(started).rejects.toThrow("The worker was stopped before it had started.");
  await stopped;
});

test("starting and stopping twice is starting and stopping once, and a stopped worker may start again", async () => {
  const installation = await openStage({ scenario: { turns: [done] } });
  const worker = await installation.startWorker();
  await Promise.all([worker.start(), worker.start()]);
  const { redis } = installation;
  const lists = await Promise.all(serversOf(redis).map((server) => server.client("LIST")));
  expect(lists.join("\n")).toMatch(/name=subagent-queue-subscriber[^\n]*sub=1/);
  await Promise.all([worker.stop(), worker.stop()]);
  await worker.stop();
  await worker.start();
  const agent = await installation.task("work");
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded" });
});
