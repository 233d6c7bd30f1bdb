import { expect, test } from "vitest";
import { type Connection, openConnection } from "../../../src/producer/redis-call.ts";
import { createSubscriber, listenToDoorbell, SLOW_POLL_MS } from "../../../src/producer/subscriber.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { redisUrl, startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { createManualClock } from "../cli/manual-clock.ts";

/** A subscriber whose ticks the test makes. */
function scene(url = redisUrl()) {
  const clock = createManualClock();
  const opened: Connection[] = [];
  const subscriber = createSubscriber(() => {
    const connection = openConnection(url, "subscriber", systemClock, createLogger({ level: "silent" }));
    opened.push(connection);
    return connection;
  }, clock);
  closeAtEnd(() => subscriber.stop());
  const channel = uniquePrefix();
  /** Watches the channel; `gaps` counts what it was told. */
  const watch = () => {
    const watcher = { gaps: 0, onMessage: () => {}, onGap: () => void watcher.gaps++, onStop: () => {} };
    return { watcher, unwatch: subscriber.watch(channel, watcher) };
  };
  return { clock, opened, subscriber, watch };
}

test("who begins to watch after the stop is told so at once, and nothing is opened or ticks for it", async () => {
  const { clock, opened, subscriber } = scene();
  subscriber.stop();
  let stops = 0;
  subscriber.watch("any", { onMessage: () => {}, onGap: () => {}, onStop: () => void stops++ });
  expect(stops).toBe(1);
  const bell = listenToDoorbell(
    { subscriber, keys: keysUnder(uniquePrefix()) },
    { tenant: "default", parentId: "p" },
  );
  expect(bell.isClosed).toBe(true);
  await bell.next();
  expect([opened.length, clock.pending]).toEqual([0, 0]);
});

test("each who begins to watch is told of the gap before, and nobody else is", async () => {
  const { watch } = scene();
  const first = watch();
  await until(() => first.watcher.gaps === 1);
  const second = watch();
  await until(() => second.watcher.gaps === 1);
  expect(first.watcher.gaps).toBe(1);
});

test("every slow tick is a gap as long as somebody watches, and nothing ticks then", async () => {
  const { clock, watch } = scene();
  const { watcher, unwatch } = watch();
  await until(() => watcher.gaps === 1);
  for (let tick = 1; tick <= 3; tick++) {
    clock.advance(SLOW_POLL_MS);
    expect(watcher.gaps).toBe(1 + tick);
  }
  expect(clock.pending).toBe(1);
  unwatch();
  expect(clock.pending).toBe(0);
});

test("a slow tick tells a hundred channels in one turn of the event loop, and the others in later turns", async () => {
  const { clock, subscriber } = scene();
  const prefix = uniquePrefix();
  const told = new Set<number>();
  let subscribed = 0;
  for (let n = 0; n < 250; n++)
    subscriber.watch(`${prefix}:${n}`, {
      onMessage: () => {},
      onGap: (cause) => void (cause === "tick" ? told.add(n) : subscribed++),
      onStop: () => {},
    });
  await until(() => subscribed === 250);
  clock.advance(SLOW_POLL_MS);
  expect(told.size).toBe(100);
  await until(() => told.size === 250);
});

test("a connection that answers its pings stays; one that leaves a ping unanswered is opened anew", async () => {
  const server = await startPrivateRedis();
  const proxy = await startProxy(server.port);
  const { clock, opened, watch } = scene(`redis://127.0.0.1:${proxy.port}`);
  const { watcher } = watch();
  await until(() => watcher.gaps === 1);
  const [connection] = opened;
  let closed = 0;
  connection?.redis.on("close", () => void closed++);
  for (let tick = 0; tick < 3; tick++) {
    clock.advance(SLOW_POLL_MS);
    await connection?.redis.ping();
  }
  expect(closed).toBe(0);
  proxy.blackhole();
  clock.advance(2 * SLOW_POLL_MS);
  await until(() => closed === 1);
  const { gaps } = watcher;
  proxy.heal();
  await until(() => watcher.gaps > gaps);
});

test("after a reconnection many channels are subscribed a thousand at a time, but those whose watch has ended since", async () => {
  const { opened, subscriber } = scene();
  const prefix = uniquePrefix();
  const nameOf = (n: number) => `${prefix}:${n}`;
  const told: number[] = [];
  const unwatch = Array.from({ length: 2_500 }, (_, n) =>
    subscriber.watch(nameOf(n), { onMessage: () => {}, onGap: () => void told.push(n), onStop: () => {} }),
  );
  await until(() => told.length === 2_500);
  const [connection] = opened;
  if (!connection) throw new Error("nothing was opened");
  const { redis } = connection;
  const subscribe = redis.subscribe.bind(redis) as (...channels: string[]) => Promise<unknown>;
  const sent: string[][] = [];
  redis.subscribe = ((...channels: string[]) => {
    sent.push(channels);
    if (sent.length === 1) unwatch[2_400]?.();
    return subscribe(...channels);
  }) as typeof redis.subscribe;
  connection.drop();
  await until(() => told.length === 2_500 + 2_499);
  expect(sent.map((channels) => channels.length)).toEqual([1_000, 1_000, 499]);
  expect(new Set(told.slice(2_500)).size).toBe(2_499);
  expect(sent.flat()).not.toContain(nameOf(2_400));
});
