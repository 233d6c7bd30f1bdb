/** A board whose queue cannot be opened leaves nothing behind. */
import { expect, test } from "vitest";
import { createBoard } from "../../../src/service/board/board.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";

test("a start that cannot open the queue leaves no connection and no timer", async () => {
  const clock = handClock();
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  // No name can be made of it.
  const prefix = Symbol("no text") as unknown as string;
  const board = createBoard({ redisUrl: `redis://127.0.0.1:${proxy.port}`, prefix, clock });
  await expect(board.start()).rejects.toThrow(TypeError);
  expect(clock.pending).toBe(0);
  await until(() => proxy.open === 0);
});
