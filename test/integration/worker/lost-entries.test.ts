/** Guarantee: a log that has lost an entry (a failover can do that) hangs nobody: its run still ends in one reply. */
import { expect, test } from "vitest";
import { openInstallation, SHORT_TIMING } from "../../helpers/installation.ts";
import { until } from "../../helpers/until.ts";

const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
const scenario = { turns: [list("a"), list("b"), { content: [{ type: "text" as const, text: "done" }] }] };

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
