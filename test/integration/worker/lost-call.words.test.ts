/** Guarantee: the estimate of a call that was lost with its worker has the words of the parent that it was sent. */
import { expect, test } from "vitest";
import { z } from "zod";
import { promptTokens } from "../../../src/shared/protocol/content.ts";
import { run } from "../../../src/worker/run/run.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { type Agent, LONG_TIMING, openStage, type Stage } from "../../stage/stage.ts";

const WORDS = "word ".repeat(4_000);
const say = (text: string) => ({ content: [{ type: "text" as const, text }] });

/** Resolves to the prompt tokens that the parent was charged beyond those of answered calls. */
async function chargedBeyondAnswers({ parent, offline }: Stage, { parentId }: Agent): Promise<number> {
  const { usage } = await parent(parentId).usage();
  const answered = offline.ledger.map((call) =>
    call.usage ? promptTokens(call.usage) : expect.unreachable(),
  );
  return answered.reduce((rest, tokens) => rest - tokens, promptTokens(usage));
}

test("the first call of a run is charged with its prompt when its worker has died in it", async () => {
  const stage = await openStage({ scenario: { turns: [say("done")] }, timing: LONG_TIMING });
  const agent = await stage.task(WORDS);
  const { record } = stage.keys.agent(agent);
  await stage.redis.hset(record, { status: "running", epoch: "1", lease_until: "0", begun: "0a1b" });
  expect(await run(runContextOf(stage), { address: agent, wake: 1, timesTaken: 1 })).toMatchObject({
    status: "settled",
  });
  expect(await chargedBeyondAnswers(stage, agent)).toBeGreaterThan(5_000);
});

test("a later call is charged with the message that came before it when its worker has died in it", async () => {
  const use = { content: [{ type: "tool_use" as const, name: "look", input: {} }] };
  const stage = await openStage({ scenario: { turns: [use, say("done")] }, timing: LONG_TIMING });
  const agent = await stage.task("work");
  const look = { name: "look", description: "Looks.", input: z.object({}), usesWorkspace: false };
  const specs = kindsWith([defineTool({ ...look, run: async () => "seen" })]);
  const address = agent;
  let beyond: number | undefined;
  const model = heldModel(stage, async ({ purchaseId }) => {
    if (purchaseId.startsWith(`${agent.uid}.1.`)) {
      await stage.send(agent, WORDS);
      await context.leases.held.get(agent.uid)?.renew();
      return;
    }
    await stage.redis.hset(stage.keys.agent(agent).record, "lease_until", "0");
    const next = await run(runContextOf(stage, { specs }), { address, wake: 2, timesTaken: 1 });
    expect(next).toMatchObject({ status: "settled" });
    beyond = await chargedBeyondAnswers(stage, agent);
  });
  const context = runContextOf(stage, { model, specs });
  expect(await run(context, { address, wake: 1, timesTaken: 1 })).toEqual({ status: "lost" });
  expect(beyond).toBeGreaterThan(5_000);
});
