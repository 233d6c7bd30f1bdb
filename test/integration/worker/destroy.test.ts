/** Guarantee: destroy is prompt and final, wherever the run is. */
import { expect, test } from "vitest";
import { z } from "zod";
import { entryKey } from "../../../src/shared/protocol/log.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { openInstallation } from "../../helpers/installation.ts";
import { latch } from "../../helpers/latch.ts";
import { until } from "../../helpers/until.ts";

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

test("destroying a run during its model call aborts the call within a second and leaves one `ended` entry", async () => {
  const list = {
    content: [text("Looking."), { type: "tool_use" as const, name: "glob", input: { pattern: "*" } }],
  };
  const installation = await openInstallation({
    scenario: { turns: [list, { ...done, latencyMs: 30_000 }] },
  });
  const worker = await installation.startWorker();
  const agent = await installation.task("work");
  const { offline } = installation;
  await until(() => offline.ledger.length === 1 && offline.inFlight === 1);
  const startedMs = performance.now();
  expect(await installation.destroy(agent)).toBe("settled");
  await until(() => offline.ledger[1]?.status === "aborted");
  expect(performance.now() - startedMs).toBeLessThan(1_000);
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

test("destroying a run during a tool call stops the tool within a second; nothing more is called", async () => {
  const installation = await openInstallation({ scenario: { turns: [hang, done] } });
  const { tool, started, aborted } = hangingTool();
  const worker = await installation.startWorker({ tools: [tool] });
  const agent = await installation.task("work");
  await started.opened;
  const startedMs = performance.now();
  await installation.destroy(agent);
  await aborted.opened;
  expect(performance.now() - startedMs).toBeLessThan(1_000);
  await until(() => worker.active().length === 0);
  expect(installation.offline.ledger).toHaveLength(1);
  expect(await installation.entries(agent)).toMatchObject([
    { kind: "ended", turns: 1, tools_called: { hang: 1 } },
  ]);
});

test("what a destroyed run still wanted to write is stale and changes nothing", async () => {
  const installation = await openInstallation({ scenario: { turns: [hang, done] } });
  const { tool, started } = hangingTool();
  const worker = await installation.startWorker({ tools: [tool] });
  const agent = await installation.task("work");
  await started.opened;
  const { epoch } = await installation.record(agent);
  await installation.destroy(agent);
  await until(() => worker.active().length === 0);
  const { store, redis, keys } = installation;
  const before = await redis.hgetall(keys.agent(agent).record);
  const late = { epoch, runningMs: 1, entries: [[entryKey.result(1, "late"), "{}"]] as const };
  expect(await store.append(agent, late)).toMatchObject({ status: "stale" });
  expect(await store.renew(agent, epoch, 1)).toMatchObject({ status: "stale" });
  expect(await store.release(agent, { epoch, delayMs: 0, runningMs: 1, retries: 0 })).toMatchObject({
    status: "stale",
  });
  expect(await redis.hgetall(keys.agent(agent).record)).toEqual(before);
  expect(await redis.exists(keys.agent(agent).log)).toBe(0);
  expect(await installation.entries(agent)).toHaveLength(1);
});

test("a queued agent that is destroyed never starts, and its message is listed as undelivered", async () => {
  const installation = await openInstallation({ scenario: { turns: [done] } });
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
  const installation = await openInstallation({ scenario: { turns: [both, done] } });
  const worker = await installation.startWorker({ tools: [tool, short] });
  const agent = await installation.task("work");
  await started.opened;
  // Somebody settles behind the worker's back: the epoch has moved on, but no hint was published.
  const { redis, keys } = installation;
  await redis.hset(keys.agent(agent).record, { status: "ended", ended_reason: "destroyed", epoch: "99" });
  const startedMs = performance.now();
  go.open();
  await aborted.opened;
  expect(performance.now() - startedMs).toBeLessThan(1_000);
  await until(() => worker.active().length === 0);
  expect(installation.offline.ledger).toHaveLength(1);
});
