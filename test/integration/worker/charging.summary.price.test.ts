/** Guarantee: a summary costs its price, whether or not it can be used. */
import { expect, test } from "vitest";
import { costUsd, priceOf } from "../../../src/shared/protocol/usage.ts";
import { chapters, page, say } from "../../helpers/chapters.ts";
import { openStage } from "../../stage/stage.ts";

const MODEL = "claude-haiku-4-5";
const windowTokens = 36_000;

test.each([
  ["a summary", "Three chapters.", { status: "succeeded", compactions: 1 }],
  ["a summary that says nothing", " ", { status: "partial" }],
] as const)("%s is in the cost of its reply, as each other call", async (_, summary, outcome) => {
  const scenario = [
    { match: { user: "Your own summary" }, turns: [say("-"), say("-"), say("The end.")], windowTokens },
    { turns: [...chapters, say("never said")], hand_back: say(summary), windowTokens },
  ];
  const stage = await openStage({ scenario });
  await stage.startWorker({ tools: [page] });
  const parent = stage.parent("frugal", { model: MODEL });
  const reply = await parent.task("work");
  expect(reply).toMatchObject(outcome);
  const price = priceOf(MODEL, {});
  if (!price) throw new Error("the model has no price");
  expect(reply.cost_usd).toBeCloseTo(costUsd(reply.usage, price), 9);
  expect((await parent.usage()).cost_usd).toBeCloseTo(reply.cost_usd, 5);
});
