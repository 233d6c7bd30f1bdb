/** Guarantee: a summary that is itself too long for the provider covers less the next time, and ends. */
import { expect, test } from "vitest";
import { chapters, page, say } from "../../helpers/chapters.ts";
import { openStage } from "../../stage/stage.ts";

const refused = { status: 400, message: "prompt is too long: 210000 tokens > 200000 maximum" };

test("a summary that the provider finds too long is asked for in ever smaller parts, and only then the run ends", async () => {
  const turns = [...chapters, { ...say("never said"), failures: [refused, refused] }];
  const scenario = { turns, hand_back: { ...say("never said"), failures: [refused] } };
  const { offline, startWorker, parent } = await openStage({ scenario });
  await startWorker({ tools: [page] });
  const reply = await parent("planner-7", { model: "offline-1" }).task("work");
  expect(reply).toMatchObject({ status: "partial", stop_reason: "context_window", turns: 5 });
  const calls = offline.ledger.flatMap(({ http_status, idempotency_key }) =>
    http_status === 400 ? [idempotency_key?.split(".")[1]] : [],
  );
  expect(calls).toEqual(["11", "11-7", "11-5", "11-3", "11"]);
});
