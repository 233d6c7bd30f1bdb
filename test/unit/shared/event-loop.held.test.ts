/** Turns wait for a server that gets connections, and not for ever. */
import diagnostics from "node:diagnostics_channel";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { createLine, createTurns, holdTurns } from "../../../src/shared/event-loop.ts";
import { createHttpServer } from "../../../src/shared/http-server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";

const nextRound = () => new Promise((resolve) => setImmediate(resolve));
const CLIENTS = 30;

test("in a round that is held no turn begins, be it a free one, and the next round has it", async () => {
  const take = createTurns(3);
  let begun = 0;
  const begin = async () => {
    await take();
    begun += 1;
  };
  holdTurns();
  const all = [begin(), begin()];
  await Promise.resolve();
  expect(begun).toBe(0);
  await Promise.all(all);
  expect(begun).toBe(2);
});

test("while every round is held a turn begins after 20 of them", async () => {
  const take = createTurns(1);
  holdTurns();
  let hasBegun = false;
  void take()?.then(() => {
    hasBegun = true;
  });
  let rounds = 0;
  for (; !hasBegun && rounds < 100; rounds++) {
    holdTurns();
    await nextRound();
  }
  expect(rounds).toBeGreaterThanOrEqual(20);
  expect(rounds).toBeLessThanOrEqual(23);
});

test("work in line waits, too", async () => {
  const inLine = createLine(2);
  holdTurns();
  let hasBegun = false;
  const work = inLine(async () => {
    hasBegun = true;
  });
  await Promise.resolve();
  await Promise.resolve();
  expect(hasBegun).toBe(false);
  await work;
  expect(hasBegun).toBe(true);
});

test("clients that come together are let in before the work that has waited for its turns", async () => {
  const server = createHttpServer({
    ...{ who: "The test", host: "127.0.0.1", port: 0, connections: 100, requestTimeoutMs: 60_000 },
    answer: (_request, response) => void response.end(),
  });
  await server.start();
  closeAtEnd(() => server.stop());
  const port = Number(new URL(server.url).port);
  const take = createTurns(1);
  let [begun, isOver] = [0, false];
  const work = async () => {
    while (!isOver) {
      await take();
      begun += 1;
    }
  };
  const begunAt: number[] = [];
  const note = (message: unknown) => {
    if ((message as { socket: { localPort?: number } }).socket.localPort === port) begunAt.push(begun);
  };
  diagnostics.subscribe("net.server.socket", note);
  const working = Promise.all([work(), work(), work()]);
  const clients = Array.from({ length: CLIENTS }, () => connect(port, "127.0.0.1"));
  closeAtEnd(() => {
    for (const client of clients) client.destroy();
  });
  await until(() => begunAt.length === CLIENTS);
  isOver = true;
  diagnostics.unsubscribe("net.server.socket", note);
  await working;
  const [first = 0, last = 0] = [begunAt[0], begunAt.at(-1)];
  // A turn each round would be at least as many as there are clients.
  expect(last - first).toBeLessThanOrEqual(CLIENTS / 3);
});
