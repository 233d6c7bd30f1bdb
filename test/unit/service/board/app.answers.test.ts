/** The board's answers, whatever stands behind it: their headers, and what a slow client does to them. */
import { createServer } from "node:http";
import express, { type Express, type Response } from "express";
import { expect, test } from "vitest";
import { BOARD_PATH, createBoardApp } from "../../../../src/service/board/app.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { latch } from "../../../helpers/latch.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";
import { until } from "../../../helpers/until.ts";

const ANSWER_MS = 5_000;

/** A board over `routes`, without a Redis: its clock, and an address of its data. */
async function boardOver(routes: Express) {
  const clock = handClock();
  const app = createBoardApp({ board: routes, hosts: "any", trouble: () => undefined, clock });
  return { clock, url: `${await listenUntilEnd(createServer(app))}${BOARD_PATH}/api/queues` };
}

test("an answer that its client reads slowly is not answered once more, and comes whole", async () => {
  const held = latch<Response>();
  const routes = express().use((_request, response) => {
    response.write("half of it, ");
    held.open(response);
  });
  const { clock, url } = await boardOver(routes);
  const answer = await fetch(url);
  const response = await held.opened;
  expect(() => clock.advance(ANSWER_MS), "it would end the process").not.toThrow();
  response.end("the rest");
  expect([answer.status, await answer.text()]).toEqual([200, "half of it, the rest"]);
});

test("the data is for no cache, and a time limit ends with its answer", async () => {
  const { clock, url } = await boardOver(express().use((_request, response) => void response.json([])));
  const answer = await fetch(url);
  expect([answer.status, answer.headers.get("cache-control")]).toEqual([200, "no-store"]);
  await until(() => clock.pending === 0, { timeoutMs: 10_000 });
});

test("a page may be framed and given another base by nobody, and lays down nothing for other ports", async () => {
  const { url } = await boardOver(express().use((_request, response) => void response.send("page")));
  const { headers } = await fetch(url);
  const policy = (headers.get("content-security-policy") ?? "").split(";").sort();
  expect(policy).toEqual([
    "base-uri 'self'",
    "default-src 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "img-src 'self' data:",
    "object-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
  ]);
  // A browser would remember it for every other port of this host, too.
  expect(headers.get("strict-transport-security")).toBeNull();
  const others = ["x-frame-options", "referrer-policy", "x-content-type-options"];
  expect(others.map((name) => headers.get(name))).toEqual(["DENY", "no-referrer", "nosniff"]);
});
