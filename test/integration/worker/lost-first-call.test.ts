/** Guarantee: the estimate of a call that was lost with its worker has the words of the parent that no log had yet. */
import { expect, test } from "vitest";
import { promptTokens } from "../../../src/shared/protocol/content.ts";
import { run } from "../../../src/worker/run/run.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

test("the first call of a run is charged with its prompt when its worker has died in it", async () => {
  const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
  const stage = await openStage({ scenario: { turns: [say("done")] }, timing: LONG_TIMING });
  const agent = await stage.task("word ".repeat(4_000));
  const { record } = stage.keys.agent(agent);
  await stage.redis.hset(record, { status: "running", epoch: "1", lease_until: "0", begun: "0a1b" });
  expect(await run(runContextOf(stage), { address: agent, wake: 1, timesTaken: 1 })).toMatchObject({
    status: "settled",
  });
  const { usage } = await stage.parent(agent.parentId).usage();
  const [bought] = stage.offline.ledger;
  const answered = bought?.usage ? promptTokens(bought.usage) : expect.unreachable();
  expect(promptTokens(usage) - answered).toBeGreaterThan(5_000);
});
