/** Guarantee: an operator reads why the board could not answer; a client reads only that it could not. */
import { createServer } from "node:http";
import express from "express";
import { expect, test } from "vitest";
import { BOARD_PATH, createBoardApp } from "../../../../src/service/board/app.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";

test("an error of the board's own is logged with its reason, one of the request is not", async () => {
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const board = express().use(({ path }) => {
    throw Object.assign(new Error("the queue is a hash"), path === "/asked-badly" && { status: 400 });
  });
  const app = createBoardApp({ board, hosts: "any", trouble: () => undefined, clock: handClock(), logger });
  const url = await listenUntilEnd(createServer(app));
  const own = await fetch(`${url}${BOARD_PATH}/broken`);
  expect(own.status).toBe(500);
  expect(await own.text()).not.toContain("hash");
  expect((await fetch(`${url}${BOARD_PATH}/asked-badly`)).status).toBe(400);
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { problem: "the queue is a hash", msg: "A request could not be answered" },
  ]);
});
