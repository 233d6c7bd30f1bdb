/** Guarantee: the log says how long each answer and each summary took. */
import { expect, test } from "vitest";
import { run } from "../../../src/worker/run/run.ts";
import { chapters, page, say } from "../../helpers/chapters.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { kindsWith, runContextOf, skippingClock } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const CALL_MS = 100;
const windowTokens = 36_000;

test("each answer and each summary of a run is stored with the time that its call took", async () => {
  const scenario = [
    { match: { user: "Your own summary" }, turns: [say("-"), say("-"), say("The end.")], windowTokens },
    { turns: [...chapters, say("never said")], hand_back: say("Three chapters."), windowTokens },
  ];
  const stage = await openStage({ scenario, timing: LONG_TIMING });
  const agent = await stage.task("work", { keep_alive: true });
  const clock = skippingClock();
  const model = heldModel(stage, async () => clock.skip(CALL_MS));
  const context = runContextOf(stage, { clock, model, specs: kindsWith([page]) });
  await run(context, { address: agent, wake: 1, timesTaken: 1 });
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", compactions: 1 });
  const log = Object.values(await stage.redis.hgetall(stage.keys.agent(agent).log)).map((json) =>
    JSON.parse(json),
  );
  const bought = log.filter((entry) => "usage" in entry);
  expect(bought.filter((entry) => "summary" in entry)).toHaveLength(1);
  expect(bought.length).toBeGreaterThan(chapters.length + 1);
  for (const { duration_ms } of bought) expect(duration_ms).toBeGreaterThanOrEqual(CALL_MS);
});
