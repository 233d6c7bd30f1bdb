/** Callbacks of the Agent Protocol that were answered leave no time limit behind. */
import { createServer } from "node:http";
import { expect, test } from "vitest";
import { createCallbackSender } from "../../../src/service/agent-protocol/callback.ts";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const ANSWER_MS = 15_000;

test("the time limit of a callback ends with its answer, whether that accepts it or not", async () => {
  const stage = await openStage();
  const client = stage.client();
  let [asked, begun, left] = [0, 0, 0];
  const clock: Clock = {
    ...systemClock,
    timeout(ms, callback) {
      const timer = systemClock.timeout(ms, callback);
      if (ms !== ANSWER_MS) return timer;
      begun += 1;
      left += 1;
      return {
        cancel() {
          left -= 1;
          timer.cancel();
        },
      };
    },
  };
  const server = createServer((_request, response) => {
    asked += 1;
    response.writeHead(asked === 1 ? 503 : 200).end("{}");
  });
  const thread = openThread(client, "default", "planner-7", newThreadId());
  await thread.begin({ assistantId: "researcher", text: "go", callbackThreadId: "main" });
  await stage.scriptedWorker().run("researcher");
  const sender = createCallbackSender({ client, url: await listenUntilEnd(server), retryMs: 10, clock });
  closeAtEnd(() => sender.stop());
  sender.start();
  await until(() => asked === 2);
  await until(() => left === 0);
  expect(begun).toBe(2);
});
