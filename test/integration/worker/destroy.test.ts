/** Guarantee: destroy is prompt and final, wherever the run is. */
import { once } from "node:events";
import { expect, test } from "vitest";
import { z } from "zod";
import { systemClock } from "../../../src/shared/clock.ts";
import { entryKey } from "../../../src/shared/protocol/log.ts";
import { openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { createWorkerHints } from "../../../src/worker/health/worker-hints.ts";
import { claimRun } from "../../../src/worker/run/claim.ts";
import { LeaseKeeper } from "../../../src/worker/run/lease.ts";
import { run } from "../../../src/worker/run/run.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { redisUrl, startPrivateRedis } from "../../helpers/redis.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const text = (words: string) => ({ type: "text" as const, text: words });
const hang = { content: [text("Hanging."), { type: "tool_use" as const, name: "hang", input: {} }] };
const done = { content: [text("done")] };

function hangingTool() {
  const started = latch();
  const aborted = latch();
  const tool = defineTool({
    name: "hang",
    description: "Waits until it is told to stop.",
    input: z.object({}),
    async run(_input, { signal }) {
      signal.addEventListener("abort", () => aborted.open(), { once: true });
      started.open();
      await aborted.opened;
      return "stopped";
    },
  });
  return { tool, started, aborted };
}

test("a long text is kept whole, by whomever its run is ended; after a short one there is nothing to keep", async () => {
  const long = "0123456789".repeat(1_500);
  const says = (words: string, path: string) => ({
    content: [text(words), { type: "tool_use" as const, name: "glob", input: { pattern: path } }],
  });
  const late = { ...done, latencyMs: LONG_TIMING.leaseMs };
  for (const [turns, whole] of [
    [[says("Short.", "a"), says(long, "b"), late], long],
    [[says(long, "a"), says("Short.", "b"), late], undefined],
  ] as const) {
    const installation = await openStage({ scenario: { turns: [...turns] } });
    await installation.startWorker();
    const agent = await installation.task("work");
    await until(() => installation.offline.ledger.length === 2 && installation.offline.inFlight === 1);
    expect(await installation.destroy(agent)).toBe("settled");
    const { reply_id, truncated } = await installation.reply(agent);
    expect(truncated).toBe(whole !== undefined);
    expect(await installation.store.fullText(agent, reply_id)).toBe(whole);
  }
});

test("destroying a run during its model call aborts the call at once and leaves one `ended` entry", async () => {
  const list = {
    content: [text("Looking."), { type: "tool_use" as const, name: "glob", input: { pattern: "*" } }],
  };
  const installation = await openStage({
    timing: LONG_TIMING,
    scenario: { turns: [list, { ...done, latencyMs: LONG_TIMING.leaseMs }] },
  });
  const worker = await installation.startWorker();
  const agent = await installation.task("work");
  const { offline } = installation;
  await until(() => offline.ledger.length === 1 && offline.inFlight === 1);
  expect(await installation.destroy(agent)).toBe("settled");
  await until(() => offline.ledger[1]?.status === "aborted");
  await until(() => worker.active().length === 0);
  expect(await installation.entries(agent)).toMatchObject([
    {
      kind: "ended",
      status: "cancelled",
      stop_reason: "destroyed",
      agent_status: "ended",
      turns: 1,
      tools_called: { glob: 1 },
      summary: "Looking.",
    },
  ]);
});

test("destroying a run during a tool call stops the tool at once; nothing more is called", async () => {
  const installation = await openStage({ scenario: { turns: [hang, done] }, timing: LONG_TIMING });
  const { tool, started, aborted } = hangingTool();
  const worker = await installation.startWorker({ tools: [tool] });
  const agent = await installation.task("work");
  await started.opened;
  await installation.destroy(agent);
  await aborted.opened;
  await until(() => worker.active().length === 0);
  expect(installation.offline.ledger).toHaveLength(1);
  expect(await installation.entries(agent)).toMatchObject([
    { kind: "ended", turns: 1, tools_called: { hang: 1 } },
  ]);
});

test("what a destroyed run still wanted to write is stale and changes nothing", async () => {
  const installation = await openStage({ scenario: { turns: [hang, done] } });
  const { tool, started } = hangingTool();
  const worker = await installation.startWorker({ tools: [tool] });
  const agent = await installation.task("work");
  await started.opened;
  const { epoch } = await installation.record(agent);
  await installation.destroy(agent);
  await until(() => worker.active().length === 0);
  const { store, redis, keys } = installation;
  const before = await redis.hgetall(keys.agent(agent).record);
  const late = { epoch, known: 0, running_ms: 1, entries: [[entryKey.result(1, "late"), "{}"]] as const };
  expect(await store.append(agent, late)).toMatchObject({ status: "stale" });
  expect(await store.renew(agent, { epoch, running_ms: 1 })).toMatchObject({ status: "stale" });
  expect(await store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0 })).toMatchObject({
    status: "stale",
  });
  expect(await redis.hgetall(keys.agent(agent).record)).toEqual(before);
  expect(await redis.exists(keys.agent(agent).log)).toBe(0);
  expect(await installation.entries(agent)).toHaveLength(1);
});

test("a queued agent that is destroyed never starts, and its message is listed as undelivered", async () => {
  const installation = await openStage({ scenario: { turns: [done] } });
  const agent = await installation.task("work");
  await installation.destroy(agent);
  await installation.startWorker();
  const { redis, keys } = installation;
  await until(async () => (await redis.zcard(`${keys.bullPrefix}:wakes:completed`)) === 1);
  expect(installation.offline.ledger).toEqual([]);
  expect(await installation.entries(agent)).toMatchObject([
    { kind: "ended", turns: 0, undelivered: [expect.any(String)] },
  ]);
});

test("one of several parallel tools that meets the destruction takes the others down with it, hint or no hint", async () => {
  const go = latch();
  const short = defineTool({
    name: "short",
    description: "Ends when it may.",
    input: z.object({}),
    async run() {
      await go.opened;
      return "over";
    },
  });
  const { tool, started, aborted } = hangingTool();
  const both = { content: [...hang.content, { type: "tool_use" as const, name: "short", input: {} }] };
  const installation = await openStage({ scenario: { turns: [both, done] }, timing: LONG_TIMING });
  const worker = await installation.startWorker({ tools: [tool, short] });
  const agent = await installation.task("work");
  await started.opened;
  // Somebody settles behind the worker's back: the epoch has moved on, but no hint was published.
  const { redis, keys } = installation;
  await redis.hset(keys.agent(agent).record, { status: "ended", ended_reason: "destroyed", epoch: "99" });
  go.open();
  await aborted.opened;
  await until(() => worker.active().length === 0);
  expect(installation.offline.ledger).toHaveLength(1);
});

test("a destroy whose hint comes while the agent is still being loaded stops the run all the same", async () => {
  const installation = await openStage({
    scenario: { turns: [{ ...done, latencyMs: LONG_TIMING.leaseMs }] },
    timing: LONG_TIMING,
  });
  const { keys, store, offline } = installation;
  const leases = new LeaseKeeper({ store, clock: systemClock });
  const hints = openRedis(redisUrl(), "subscriber");
  const heard = latch<string>();
  hints.on("message", (_channel, uid: string) => heard.open(uid));
  const line = createWorkerHints({
    redis: hints,
    channel: keys.hints,
    leases,
    onLimiter: () => {},
    canAsk: () => true,
    clock: systemClock,
  });
  closeAtEnd(() => line.stop());
  await line.start();
  const agent = await installation.task("work");
  // A run that was handed back goes straight on to its model call: no write of its own tells it that it is over.
  const first = await installation.startWorker({ drainGraceMs: 0 });
  await until(() => offline.inFlight === 1);
  await first.stop();
  const claim: typeof store.claim = async (address, input) => {
    const claimed = await store.claim(address, input);
    await installation.destroy(agent);
    expect(await heard.opened).toBe(agent.uid);
    return claimed;
  };
  const context = runContextOf(installation, { leases, store: { ...store, claim } });
  const end = await run(context, { address: agent, wake: 2, timesTaken: 1 });
  expect(end).toEqual({ status: "lost" });
});

test("when the line is back every run is asked about: a destroy may have fallen into the gap", async () => {
  const installation = await openStage({ timing: LONG_TIMING });
  const { keys, store } = installation;
  const leases = new LeaseKeeper({ store, clock: systemClock });
  const hints = openRedis(redisUrl(), "subscriber");
  const line = createWorkerHints({
    redis: hints,
    channel: keys.hints,
    leases,
    onLimiter: () => {},
    // While the line is down nothing can be asked: only its return can tell.
    canAsk: () => hints.status === "ready",
    clock: systemClock,
  });
  closeAtEnd(() => line.stop());
  await line.start();
  const agent = await installation.task("work");
  const context = runContextOf(installation, { leases });
  const slot = context.slots.admit();
  if (!slot) throw new Error("nobody is admitted");
  const claimed = await claimRun(context, { address: agent, wake: 1, timesTaken: 1 }, slot);
  if (claimed.status !== "claimed") throw new Error(claimed.status);
  const lease = leases.hold(claimed);
  closeAtEnd(() => leases.drop(lease));
  const down = once(hints, "close");
  hints.disconnect(true);
  await down;
  await installation.destroy(agent);
  await until(() => lease.endReason === "taken", { what: "the end of the lease" });
});

test("a worker that is kept from hearing hints asks for them", async () => {
  const server = await startPrivateRedis();
  const installation = await openStage({
    redis: server,
    scenario: { turns: [hang, done] },
    timing: LONG_TIMING,
  });
  const { redis } = installation;
  await redis.acl("SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all");
  const { tool, started, aborted } = hangingTool();
  await installation.startWorker({ tools: [tool], redisUrl: server.url.replace("//", "//worker:secret@") });
  const agent = await installation.task("work");
  await started.opened;
  await redis.acl("SETUSER", "worker", "resetchannels");
  await until(async () => (await redis.client("LIST", "TYPE", "PUBSUB")) === "");
  await installation.destroy(agent);
  await aborted.opened;
});
