/** Guarantee: a message that its run did not read any more is told through every door that a model reads by. */
import { expect, test } from "vitest";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { resultOf } from "../../../src/service/mcp/task.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { latch } from "../../helpers/latch.ts";
import { openStage } from "../../stage/stage.ts";

const UNREAD = "1 message to it came too late and was not read.";

test("a message to a run whose answer was cut off is told with the reply", async () => {
  const answer = { content: [{ type: "text" as const, text: "half of it" }], stop_reason: "max_tokens" };
  const stage = await openStage({ scenario: { turns: [answer] } });
  const [called, sent] = [latch(), latch()];
  const model = heldModel(stage, () => {
    called.open();
    return sent.opened;
  });
  await stage.startWorker({ model });
  const parent = stage.parent();
  const thread = openThread(stage.client(), "default", parent.parentId, newThreadId());
  const { run_id } = await thread.begin({ assistantId: "writer", text: "write" });
  await called.opened;
  await thread.begin({ assistantId: "writer", text: "and translate it" });
  sent.open();
  expect(await thread.wait(run_id, new AbortController().signal)).toEqual({ status: "success" });
  const { values } = await thread.state();
  expect(values.messages).toMatchObject([{ content: `half of it\n\n[sub-agent: ${UNREAD}]` }]);
  const { text, entries } = await parent.newReplies();
  expect(text).toContain(`half of it\n\n[sub-agent: ${UNREAD}]`);
  const [structured] = entries.flatMap((entry) =>
    entry.kind === "reply" ? resultOf(entry).structuredContent : [],
  );
  expect(structured).toMatchObject({ undelivered: [expect.any(String)] });
});
