/**
 * Guarantee: a worker that is killed while a conversation is summed up costs one call. The summary is bought at most once
 * more, is never lost once it stands in the log, and what was paid stands in the usage.
 */
import { expect, test } from "vitest";
import type { LedgerEntry, Scenario } from "../../../src/offline/server.ts";
import { totalTokens, type Usage } from "../../../src/shared/protocol/content.ts";
import { endLeases } from "../../helpers/leases.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const PAGE = "word ".repeat(6_000);
/** Its first call is never answered, its second one is. */
const say = (text: string) => ({
  content: [{ type: "text" as const, text }],
  failures: [{ stream: { stallAfterChunks: 0 } }],
});
const chapters = [1, 2, 3, 4].map((number) => ({
  content: [
    { type: "text" as const, text: `chapter ${number}: ${PAGE}` },
    { type: "tool_use" as const, id: `toolu_${number}`, name: "note", input: { line: `${number}` } },
  ],
}));
const cut = {
  content: [{ type: "text" as const, text: `half ${PAGE}` }],
  stop_reason: "model_context_window_exceeded",
};
/** The first script plays once the conversation begins with a summary; its last turn follows on what was kept. */
const scenario: Scenario = [
  { match: { user: "Your own summary" }, turns: [say("-"), say("-"), say("and the rest.")] },
  { turns: [...chapters, cut], hand_back: say("Two chapters.") },
];

const tokensOf = (usage: Usage | null) => (usage ? totalTokens(usage) : 0);
const promptOf = (usage: Usage | null | undefined) =>
  usage ? totalTokens({ ...usage, output_tokens: 0 }) : 0;
const isSummary = ({ idempotency_key }: LedgerEntry) => /\.\d+-\d+\.\d+$/.test(idempotency_key ?? "");

test("a summary is bought once more when its buyer is killed, and never again once it stands in the log", async () => {
  const stage = await openStage({ scenario, timing: LONG_TIMING });
  const { offline, keys, redis } = stage;
  const first = await stage.spawnWorker();
  const agent = await stage.task("work");
  const { log, record } = keys.agent(agent);
  const compacted = async () => (await redis.hkeys(log)).filter((key) => key.includes("/compacted/"));

  await until(() => offline.inFlight === 1 && offline.ledger.length === 5);
  await first.kill();
  await endLeases(stage);
  expect(await compacted()).toEqual([]);

  const second = await stage.spawnWorker();
  await until(async () => (await compacted()).length === 1);
  // The five turns, the summary that was cut off and the one that was kept; then the call that is never answered.
  await until(() => offline.inFlight === 1 && offline.ledger.length === 7);
  // The summary alone has brought the run on: this holder's death counts against nobody.
  expect(await redis.hget(record, "committed")).toBe("1");
  await second.kill();
  await endLeases(stage);

  const third = await stage.spawnWorker();
  const taken = await stage.recordWhere(agent, ({ worker }) => worker === third.id);
  expect(taken.crashes_without_progress).toBe(0);
  const reply = await stage.reply(agent);
  expect(reply).toMatchObject({ status: "succeeded", turns: 7, compactions: 1 });
  expect(reply.summary).toMatch(/^and the rest\./);

  const served = offline.ledger.filter(({ status }) => status === "served");
  expect(served.filter(isSummary)).toHaveLength(1);
  expect(reply.tokens).toBe(served.reduce((sum, { usage }) => sum + tokensOf(usage), 0));
  // Two calls were cut off; their prompts were the same as those of the calls that took their place.
  const prompts = promptOf(served.find(isSummary)?.usage) + promptOf(served.at(-1)?.usage);
  const lost = (await stage.parent(agent.parentId).usage()).tokens - reply.tokens;
  process.stdout.write(
    `summary killed: ${served.length} calls served, ${lost} tokens charged for ${prompts}\n`,
  );
  expect(lost / prompts).toBeGreaterThan(0.8);
  expect(lost / prompts).toBeLessThan(1.25);
});
