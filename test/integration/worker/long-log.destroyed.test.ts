/** Guarantee: a destroy that comes between a claim and the reading of a long log buys nothing: what is read then is no conversation. */
import { expect, test } from "vitest";
import { run } from "../../../src/worker/run/run.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

/** More entries than a claim hands out. */
const LONG = 1_001;

test("a run that is destroyed before its long log is read makes no call", async () => {
  const turns = [{ content: [{ type: "text" as const, text: "done" }] }];
  const stage = await openStage({ scenario: { turns }, timing: LONG_TIMING });
  const { store, redis, keys } = stage;
  const agent = await stage.task("work");
  const entries = Array.from({ length: LONG }, (_, k) => [`1/t${k}/result`, "{}"]);
  await redis.hset(keys.agent(agent).log, Object.fromEntries(entries));
  const claimed: typeof store.claimed = async (...asked) => {
    await stage.parent(agent.parentId).destroy(agent.agentId);
    return store.claimed(...asked);
  };
  const context = runContextOf(stage, { store: { ...store, claimed } });
  expect(await run(context, { address: agent, wake: 1, timesTaken: 1 })).toEqual({ status: "lost" });
  expect(stage.offline.ledger).toHaveLength(0);
});
