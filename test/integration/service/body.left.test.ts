/** A body whose client left before its request was let in takes nothing of what its tenant may have held. */
import { createServer } from "node:http";
import express, { type RequestHandler } from "express";
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { createAuth } from "../../../src/service/api/auth.ts";
import { readBody } from "../../../src/service/api/body.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { latch } from "../../helpers/latch.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { slowClient } from "../../helpers/slow-client.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

/** So many of the largest bodies fill what one tenant may have held. */
const MOST_LARGE = 32;
const LARGE_BYTES = 8 * 1_024 * 1_024;

test("thirty-two of the largest ones that nobody waits for shut no later body out", async () => {
  const stage = await openStage();
  const client = await internalsOf(stage.client()).open();
  const redis = latch();
  const open = async () => {
    await redis.opened;
    return client;
  };
  const bounds = { requestsPerMinute: 1_000, requestsAtOnce: 1_000 };
  const auth = createAuth({ open, openWithoutKeys: true, tenant: "left", clock: systemClock, ...bounds });
  const seen = { asked: 0, left: 0, letIn: 0 };
  const before: RequestHandler = (_request, response, next) => {
    seen.asked += 1;
    response.once("close", () => {
      seen.left += 1;
    });
    next();
  };
  const behind: RequestHandler = (_request, _response, next) => {
    seen.letIn += 1;
    next();
  };
  const app = express();
  app.post("/", before, auth.require("read"), behind, ...readBody("large"), (_request, response) => {
    response.json("read");
  });
  const url = await listenUntilEnd(createServer(app));
  const head = `POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${LARGE_BYTES}\r\n\r\n`;
  const clients = await Promise.all(Array.from({ length: MOST_LARGE }, () => slowClient(url, head)));
  await until(() => seen.asked === MOST_LARGE);
  for (const each of clients) each.destroy();
  await until(() => seen.left === MOST_LARGE);
  redis.open();
  await until(() => seen.letIn === MOST_LARGE);
  const headers = { "content-type": "application/json" };
  expect((await fetch(url, { method: "POST", headers, body: "{}" })).status).toBe(200);
});
