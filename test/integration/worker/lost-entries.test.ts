/** Guarantee: a log that has lost entries (a failover can do that) hangs nobody: its run still ends in one reply. */
import { expect, test } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { latch } from "../../helpers/latch.ts";
import { until } from "../../helpers/until.ts";
import { openStage, SHORT_TIMING } from "../../stage/stage.ts";

const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
const done = { content: [{ type: "text" as const, text: "done" }] };
const scenario = { turns: [list("a"), list("b"), done] };

test("a run whose newest turns were lost under its holder is handed back and goes on from what is left", async () => {
  const [started, goesOn] = [latch(), latch()];
  const hold = defineTool({
    name: "hold",
    description: "Waits until it is told to go on.",
    input: z.object({}),
    async run() {
      started.open();
      await goesOn.opened;
      return "held";
    },
  });
  const holds = { content: [{ type: "tool_use" as const, name: "hold", input: {} }] };
  const installation = await openStage({ scenario: { turns: [list("a"), holds, done, done] } });
  const { redis, keys, offline } = installation;
  const worker = await installation.startWorker({ tools: [hold] });
  const agent = await installation.task("look", { keep_alive: true });
  const { log } = keys.agent(agent);
  const messageOf = (key: string) => Number(key.split("/")[0]);
  await started.opened;
  const newest = (await redis.hkeys(log)).filter((key) => messageOf(key) > 1);
  expect(newest).toHaveLength(2);
  await redis.hdel(log, ...newest);
  goesOn.open();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "done", turns: 3 });
  const messages = new Set((await redis.hkeys(log)).map(messageOf));
  expect([...messages].sort()).toEqual([0, 1, 3, 5]);
  const bought = offline.ledger.map(({ idempotency_key }) => idempotency_key?.split(".")[1]);
  expect(bought).toEqual(["1", "3", "3", "5"]);
  await until(() => worker.active().length === 0);
  await installation.send(agent, "again");
  const replies = await until(async () => {
    const entries = await installation.entries(agent);
    return entries.length === 2 && entries;
  });
  expect(replies).toMatchObject([
    { run: 1, status: "succeeded" },
    { run: 2, status: "succeeded", turns: 1 },
  ]);
});

test.for([
  ["the parent's message", "0", { status: "failed", stop_reason: "model_error" }],
  ["a turn", "1", { status: "succeeded", stop_reason: "end_turn" }],
] as const)("a run that changes hands after its log has lost %s", async ([, entry, ending]) => {
  const installation = await openStage({
    scenario: { turns: [list("a"), list("b"), { ...done, latencyMs: 600_000 }] },
    timing: SHORT_TIMING,
  });
  const { redis, keys, offline } = installation;
  const first = await installation.spawnWorker();
  const agent = await installation.task("look", { keep_alive: true });
  const { log } = keys.agent(agent);
  await until(() => offline.ledger.length === 2 && offline.inFlight === 1, { what: "the last call" });
  await redis.hdel(log, entry);
  await first.kill();
  offline.setScenario(scenario);
  await installation.startWorker();
  expect(await installation.reply(agent)).toMatchObject(ending);
  expect(await installation.entries(agent)).toHaveLength(1);
});
