/** Guarantee: a log that has lost entries (a failover can do that) hangs nobody: its run still ends in one reply. */
import { expect, test } from "vitest";
import { openInstallation, SHORT_TIMING } from "../../helpers/installation.ts";
import { until } from "../../helpers/until.ts";

const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
const scenario = { turns: [list("a"), list("b"), { content: [{ type: "text" as const, text: "done" }] }] };

test("a run whose newest turns were lost under its holder is handed back and goes on from what is left", async () => {
  const installation = await openInstallation({ scenario, latencyMs: 300 });
  const { redis, keys, offline } = installation;
  const worker = await installation.startWorker();
  const agent = await installation.task("look", { keep_alive: true });
  const { record, log } = keys.agent(agent);
  const wholeLogAt = async (entry: string) =>
    until(async () => (await redis.hexists(log, entry)) === 1 && (await redis.hgetall(log)), { everyMs: 1 });
  const left = await wholeLogAt("1");
  const { progress = "" } = await redis.hgetall(record);
  await wholeLogAt("3");
  await redis.multi().del(log).hset(log, left).hset(record, { progress }).exec();
  expect(await installation.reply(agent)).toMatchObject({ status: "succeeded", summary: "done", turns: 3 });
  expect(await installation.entries(agent)).toHaveLength(1);
  const kept = Object.keys(await redis.hgetall(log));
  expect(kept.filter((key) => !key.includes("/")).sort()).toEqual(["0", "1", "3", "5"]);
  const bought = offline.ledger.map(({ idempotency_key }) => idempotency_key?.split(".")[1]);
  expect(bought.filter((message) => message === "3")).toHaveLength(2);
  await until(() => worker.active().length === 0);
  await installation.send(agent, "again");
  await until(async () => (await installation.entries(agent)).length === 2, {
    what: "the reply of the next run",
  });
});

test.for([
  ["the parent's message", "0", { status: "failed", stop_reason: "model_error" }],
  ["a turn", "1", { status: "succeeded", stop_reason: "end_turn" }],
] as const)("a run that changes hands after its log has lost %s", async ([, entry, ending]) => {
  const installation = await openInstallation({ scenario, latencyMs: 400, timing: SHORT_TIMING });
  const { redis, keys } = installation;
  const first = await installation.spawnWorker();
  const agent = await installation.task("look", { keep_alive: true });
  const { log } = keys.agent(agent);
  await until(async () => (await redis.hexists(log, "3")) === 1, { everyMs: 1 });
  await redis.hdel(log, entry);
  await first.kill();
  await installation.startWorker();
  expect(await installation.reply(agent)).toMatchObject(ending);
  expect(await installation.entries(agent)).toHaveLength(1);
});
