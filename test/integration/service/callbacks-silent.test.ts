/** Callbacks of the Agent Protocol to a server that takes a request and says nothing. */
import { createServer, type ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createCallbackSender } from "../../../src/service/agent-protocol/callback.ts";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { holdingBack } from "../../helpers/latch.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const ANSWER_MS = 15_000;

test("a server that has not answered in time is asked again", async () => {
  const stage = await openStage();
  const client = stage.client();
  const asked: ServerResponse[] = [];
  const server = createServer((_request, response) => void asked.push(response));
  const { clock, release } = holdingBack(ANSWER_MS);
  const thread = openThread(client, "default", "planner-7", newThreadId());
  await thread.begin({ assistantId: "researcher", text: "go", callbackThreadId: "main" });
  await stage.scriptedWorker().run("researcher");
  const sender = createCallbackSender({ client, url: await listenUntilEnd(server), retryMs: 10, clock });
  closeAtEnd(() => sender.stop());
  sender.start();
  await until(() => asked.length === 1);
  release();
  await until(() => asked.length === 2, { timeoutMs: 20_000 });
  expect(asked[0]?.destroyed).toBe(true);
});
