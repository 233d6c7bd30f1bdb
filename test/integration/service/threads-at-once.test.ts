/** A thread whose clients send at the same time. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { latch } from "../../helpers/latch.ts";
import { openStage } from "../../stage/stage.ts";

const parentId = "planner-7";
const assistantId = "researcher";
/** A begin opens its client for its notes, for the records of its thread, and then to send. */
const OPENED_TO_SEND = 3;

test("a message to a run that ends meanwhile goes to the run that another client has begun, and begins none beside it", async () => {
  const stage = await openStage();
  const [threadId, worker, quickly] = [newThreadId(), stage.scriptedWorker(parentId), stage.client()];
  const [reached, released] = [latch(), latch()];
  const slowly = stage.client();
  const { open } = internalsOf(slowly);
  let opened = 0;
  Object.assign(internalsOf(slowly), {
    async open() {
      opened += 1;
      if (opened === OPENED_TO_SEND) {
        reached.open();
        await released.opened;
      }
      return open();
    },
  });
  const threadOf = (client: typeof slowly) => openThread(client, "default", parentId, threadId);
  await threadOf(quickly).begin({ assistantId, text: "first" });
  const sent = threadOf(slowly).begin({ assistantId, text: "third" });
  await reached.opened;
  await worker.run(assistantId);
  const { run_id } = await threadOf(quickly).begin({ assistantId, text: "second" });
  released.open();
  expect(await sent).toMatchObject({ run_id });
  expect(await threadOf(quickly).runs()).toHaveLength(2);
});
