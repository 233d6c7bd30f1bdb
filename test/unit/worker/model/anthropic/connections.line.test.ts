/** Guarantee: the connections of a limited number serve all calls, each in its turn, also where some of them break. */
import type { Client } from "undici";
import { expect, test } from "vitest";
import { Connections } from "../../../../../src/worker/model/anthropic/connections.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

/** Connections to a place where nothing listens: a client opens none before its first request. */
function scene(connections?: number) {
  const pool = new Connections("http://127.0.0.1:1", { connections });
  closeAtEnd(() => pool.close());
  /** Takes a connection; `got` is empty while the call waits. */
  const take = () => {
    const got: Client[] = [];
    const place = pool.take((client) => got.push(client));
    return { got, place };
  };
  const taken = () => {
    const [client] = take().got;
    if (!client) throw new Error("no connection is left");
    return client;
  };
  return { pool, take, taken };
}

test("the connection that was used last is used next: the others may close for want of use", () => {
  const { pool, taken } = scene();
  const [first, second] = [taken(), taken()];
  expect(second).not.toBe(first);
  pool.release(first);
  pool.release(second);
  expect(taken()).toBe(second);
  expect(taken()).toBe(first);
});

test("calls beyond the limit wait, and get the connections that come back in the order in which they came", () => {
  const { pool, take, taken } = scene(1);
  const only = taken();
  const [gone, second, third] = [take(), take(), take()];
  gone.place?.remove();
  pool.release(only);
  expect([gone.got, second.got, third.got]).toEqual([[], [only], []]);
  pool.release(only);
  expect(third.got).toEqual([only]);
});

test("a connection that broke gives its place to the next call, however often that happens", () => {
  const { pool, take, taken } = scene(1);
  let client = taken();
  for (let k = 0; k < 3; k++) {
    const next = take();
    expect(next.got).toEqual([]);
    pool.discard(client);
    expect(client.destroyed).toBe(true);
    const [another] = next.got;
    expect(another).toBeDefined();
    expect(another).not.toBe(client);
    if (another) client = another;
  }
  pool.discard(client);
  expect(take().got).toHaveLength(1);
});

test("closing ends the connections in use as well as the unused ones", async () => {
  const { pool, taken } = scene();
  const [used, unused] = [taken(), taken()];
  pool.release(unused);
  await pool.close();
  expect([used.destroyed, unused.destroyed]).toEqual([true, true]);
});
