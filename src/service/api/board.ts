/** Bull Board on the API's port: the wake queue for the operator. It only reads, over the client's connection. */
import type { RequestHandler } from "express";
import { type Client, internalsOf } from "../../producer/client.ts";
import type { Clock } from "../../shared/clock.ts";
import { SubagentError } from "../../shared/errors.ts";
import { answerSignals } from "../../shared/http-server.ts";
import { closeQueue, openWakeQueueForReading } from "../../shared/redis/wake-queue.ts";
import { createOpenable } from "../../shared/start-stop.ts";
import { BOARD_PATH } from "../board/app.ts";
import { createBullBoardRouter } from "../board/bull-board.ts";
import type { Mount } from "./mount.ts";
import { READING, sendProblem } from "./problem.ts";

/** Interval at which a request asks whether Redis still answers. */
const ASK_EVERY_MS = 250;

/** Returns the board as a mount, and its `close`. */
export function openBoard(client: Client, clock: Clock): { mount: Mount; close(): Promise<void> } {
  const open = async () => {
    const { redis, keys } = await internalsOf(client).open();
    const queue = await openWakeQueueForReading(redis, keys);
    return { queue, router: createBullBoardRouter(queue, BOARD_PATH) };
  };
  const board = createOpenable(open, ({ queue }) => closeQueue(queue));
  const handler: RequestHandler = (request, response, next) => {
    if (!READING.includes(request.method)) {
      response.set("Allow", READING.join(", "));
      const sentence = "This board is read-only: it shows the queue and changes nothing.";
      return sendProblem(response, new SubagentError("method_not_allowed", sentence));
    }
    const answer = async () => {
      const { signal } = answerSignals(request, response);
      await requireRedis(client);
      const { router } = await board.start();
      router(request, response, next);
      // The board would wait until Redis is back.
      while (!signal.aborted && !response.headersSent) {
        await clock.sleep(ASK_EVERY_MS, signal);
        await requireRedis(client);
      }
    };
    answer().catch((error: unknown) => {
      if (!response.headersSent) sendProblem(response, error);
    });
  };
  return {
    mount: { path: BOARD_PATH, scope: "admin", isForBrowsers: true, handler: () => handler },
    close: () => board.stop().catch(() => {}),
  };
}

/** Rejects if Redis does not answer, as a call does. */
async function requireRedis(client: Client): Promise<void> {
  const { read, redis } = await internalsOf(client).open();
  await read(() => redis.time());
}
