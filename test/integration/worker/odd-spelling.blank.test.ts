/** Guarantee: a blank message of a foreign producer beside one with words ends no run: there is something to do. */
import { expect, test } from "vitest";
import { openStage } from "../../stage/stage.ts";

test("a run that begins with a message of blanks and one with words works on the words", async () => {
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] } });
  const agent = await stage.spawn({ keep_alive: true });
  const payload = JSON.stringify({ v: 1, message_id: "m-1", text: " " });
  expect(await stage.store.send(agent, { message_id: "m-1", payload, digest: "" })).toMatchObject({
    status: "queued",
  });
  await stage.send(agent, "work");
  await stage.startWorker();
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", summary: "done" });
});
