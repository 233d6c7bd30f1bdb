/** The life of a board: it leaves nothing behind, and may be started again after a failure. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { createBoard } from "../../../src/service/board/board.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { refusal } from "../../helpers/parents.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";

test("a board that could not listen can be started once its address is free", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  closeAtEnd(() => void other.close());
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  const board = createBoard({ redisUrl: redisUrl(), prefix: uniquePrefix(), port });
  closeAtEnd(() => board.stop());
  await expect(board.start()).rejects.toMatchObject(refusal("setup_failed", /cannot listen/));
  other.close();
  await once(other, "close");
  await board.start();
  expect((await fetch(board.url)).status).toBe(200);
});

test("a board that was stopped has no timer left", async () => {
  const clock = handClock();
  const board = createBoard({ redisUrl: redisUrl(), prefix: uniquePrefix(), clock });
  closeAtEnd(() => board.stop());
  await board.start();
  expect(clock.pending).toBeGreaterThan(0);
  await board.stop();
  expect(clock.pending).toBe(0);
});

test("the address of a board is one that a browser takes, also with IPv6", () => {
  const board = createBoard({ redisUrl: redisUrl(), host: "::1", port: 8_788 });
  expect(new URL(board.url)).toMatchObject({ hostname: "[::1]", port: "8788", pathname: "/admin/queues" });
});
