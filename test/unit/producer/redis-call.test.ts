import { execFileSync } from "node:child_process";
import type { Redis } from "ioredis";
import { expect, test } from "vitest";
import { CALL_BUDGET_MS, createRedisCalls, openConnection } from "../../../src/producer/redis-call.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { createManualClock } from "../cli/manual-clock.ts";

const LONGEST_HANDSHAKE_MS = 5_000;

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("an attempt that is not answered is waited for as long as its call has time, and no longer", async () => {
  const clock = createManualClock();
  const connection = openConnection(redisUrl(), "producer", clock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  let isOver = false;
  const call = createRedisCalls(connection).call(({ attempt }) => attempt(() => new Promise(() => {})));
  void call.then(() => {
    isOver = true;
  });
  await turn();
  clock.advance(CALL_BUDGET_MS - 100);
  await turn();
  expect(isOver).toBe(false);
  clock.advance(200);
  await turn();
  expect(isOver).toBe(true);
});

test("an attempt that is over in time leaves no timer, which would keep its process awake", async () => {
  const clock = createManualClock();
  const connection = openConnection(redisUrl(), "producer", clock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  await until(() => connection.redis.status === "ready");
  const before = clock.pending;
  await createRedisCalls(connection).call(({ attempt }) => attempt(async () => {}));
  expect(clock.pending).toBe(before);
});

test("a call whose second change is refused says that something may have been done, and what makes it safe", async () => {
  const connection = openConnection(redisUrl(), "producer", systemClock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  const { call } = createRedisCalls(connection);
  const key = uniquePrefix();
  const repeat = { what: "the schedule", key: { schedule_id: "day" } };
  const refusedChange = () => connection.redis.incr(key);
  const both = call(async ({ write }) => {
    await write(repeat, () => connection.redis.set(key, "no number", "PX", 60_000));
    await write(repeat, refusedChange);
  });
  await expect(both).rejects.toMatchObject({ code: "outcome_unknown", details: { schedule_id: "day" } });
  await expect(call(({ write }) => write(repeat, refusedChange))).rejects.toMatchObject({
    code: "redis_unavailable",
  });
});

test("a call whose change was refused says that nothing was done when its next command fails", async () => {
  const connection = openConnection(redisUrl(), "producer", systemClock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  const refused = createRedisCalls(connection).call(async ({ write, read }) => {
    const answer = await write(
      repeat,
      () => connection.redis.echo("quota"),
      (word) => word !== "quota",
    );
    await read(() => Promise.reject(Object.assign(new Error(answer), { name: "ReplyError" })));
  });
  await expect(refused).rejects.toMatchObject({ code: "redis_unavailable" });
});

test("a call whose change was sent twice and found nothing to change is no call that did nothing", async () => {
  const connection = openConnection(redisUrl(), "producer", systemClock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  const removal = createRedisCalls(connection).call(async ({ write, read }) => {
    await write(
      repeat,
      // The first answer is lost; the second one says that there was nothing to remove.
      async (repeated) => (repeated ? 0 : Promise.reject(CLOSED)),
      (count) => count > 0,
    );
    await read(() => Promise.reject(Object.assign(new Error("full"), { name: "ReplyError" })));
  });
  await expect(removal).rejects.toMatchObject({ code: "outcome_unknown" });
});

const repeat = { what: "the question", key: { request_key: "k" } };

/** Calls on a connection whose time the test moves, and whose every question the test answers. */
async function questions() {
  const clock = createManualClock();
  const connection = openConnection(redisUrl(), "producer", clock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  await connection.whenReady(CALL_BUDGET_MS);
  const sent: { repeated: boolean; socket: unknown }[] = [];
  const ask = (answer: (n: number) => Promise<string>) =>
    createRedisCalls(connection).call(({ write }) =>
      write(repeat, (repeated) => {
        const { stream } = connection.redis as Redis;
        sent.push({ repeated, socket: stream });
        return answer(sent.length);
      }),
    );
  return { clock, connection, sent, ask };
}

const CLOSED = new Error("Connection is closed.");
const never = () => new Promise<string>(() => {});

test("a question that is not answered is asked again at half its time, over a new socket, and says that it is the second", async () => {
  const { clock, sent, ask } = await questions();
  const answer = ask((n) => (n === 1 ? never() : Promise.resolve("heard")));
  await until(() => sent.length === 1);
  clock.advance(CALL_BUDGET_MS / 2 - 50);
  await turn();
  expect(sent).toHaveLength(1);
  clock.advance(100);
  expect(await answer).toBe("heard");
  expect(sent.map(({ repeated }) => repeated)).toEqual([false, true]);
  expect(sent[1]?.socket).not.toBe(sent[0]?.socket);
});

test("a question that is never answered is asked twice, and its outcome is unknown when its time is over", async () => {
  const { clock, sent, ask } = await questions();
  const answer = ask(never);
  const failed = expect(answer).rejects.toMatchObject({ code: "outcome_unknown" });
  await until(() => sent.length === 1);
  clock.advance(CALL_BUDGET_MS / 2 + 50);
  await until(() => sent.length === 2);
  clock.advance(CALL_BUDGET_MS);
  await failed;
  expect(sent).toHaveLength(2);
});

test("a socket that answers others is kept, and its question only waited for", async () => {
  const { clock, connection, sent, ask } = await questions();
  const answer = ask(never);
  const failed = expect(answer).rejects.toMatchObject({ code: "outcome_unknown" });
  await until(() => sent.length === 1);
  const { stream } = connection.redis as Redis;
  for (let passedMs = 0; passedMs < CALL_BUDGET_MS; passedMs += 100) {
    clock.advance(100);
    await connection.redis.ping();
  }
  await failed;
  expect(sent).toHaveLength(1);
  expect((connection.redis as Redis).stream).toBe(stream);
});

test("what Redis refuses is asked once, and its connection stays", async () => {
  const { connection, sent, ask } = await questions();
  const key = uniquePrefix();
  await connection.redis.set(key, "no number", "PX", 60_000);
  const { stream } = connection.redis as Redis;
  await expect(ask(async () => String(await connection.redis.incr(key)))).rejects.toMatchObject({
    code: "redis_unavailable",
  });
  expect(sent).toHaveLength(1);
  expect((connection.redis as Redis).stream).toBe(stream);
});

test("an answer that came while the process stood still is read before its time is over", async () => {
  const connection = openConnection(redisUrl(), "producer", systemClock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  await until(() => connection.whenReady(CALL_BUDGET_MS));
  const order: string[] = [];
  const over = new Promise<void>((resolve) => {
    connection.time.after(50, () => {
      order.push("over");
      resolve();
    });
  });
  const answered = connection.redis.ping().then(() => order.push("answered"));
  // The question leaves when this turn of the event loop is over. Redis has answered it before one that another program asks; the
  // time runs out meanwhile.
  await new Promise((resolve) => setImmediate(resolve));
  const ask = `require("node:net").connect(${new URL(redisUrl()).port}, "127.0.0.1").once("data", () => process.exit()).write("PING\\r\\n")`;
  execFileSync(process.execPath, ["-e", ask]);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  await Promise.all([over, answered]);
  expect(order).toEqual(["answered", "over"]);
});

test("who waits for a connection that is closed hears so at once, though no time passes", async () => {
  const nowhere = "redis://127.0.0.1:1";
  const logger = createLogger({ level: "silent" });
  const connection = openConnection(nowhere, "producer", createManualClock(), logger);
  const waiting = connection.whenReady(CALL_BUDGET_MS);
  connection.close();
  expect(await waiting).toBe(false);
});

test("a call under way when its client stops, and one after it, are told so at once, though no time passes", async () => {
  const { connection, ask, sent } = await questions();
  const underWay = ask(() => new Promise((_, reject) => connection.redis.once("end", () => reject(CLOSED))));
  await until(() => sent.length === 1);
  connection.close();
  const stopped = { code: "closed", message: "This client was stopped: make a new one." };
  // A change that Redis may have seen stays of unknown outcome; a read has changed nothing.
  await expect(underWay).rejects.toMatchObject({ code: "outcome_unknown" });
  await expect(ask(never)).rejects.toMatchObject(stopped);
  const read = createRedisCalls(connection).call((call) => call.read(never));
  await expect(read).rejects.toMatchObject(stopped);
  expect(sent).toHaveLength(1);
});

test("a question that finds no connection to go over is told as that, in words of ours", async () => {
  const { connection, ask } = await questions();
  const unsent = () =>
    Promise.reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
  await expect(ask(unsent)).rejects.toMatchObject({
    code: "redis_unavailable",
    message: `Redis cannot be reached (not connected, no answer within ${CALL_BUDGET_MS} ms): nothing was done; call again when it is back.`,
  });
  const ended = Object.assign(new Error("Reached the max retries per request limit"), {
    name: "MaxRetriesPerRequestError",
  });
  const read = createRedisCalls(connection).call((call) => call.read(() => Promise.reject(ended)));
  await expect(read).rejects.toThrow("Redis cannot be reached (the connection ended before the answer)");
});

test("a Redis that swallows the handshake is told as one that does not answer, to the caller and in the log", async () => {
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  proxy.pause();
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const clock = createManualClock();
  const connection = openConnection(`redis://127.0.0.1:${proxy.port}`, "producer", clock, logger);
  closeAtEnd(() => connection.close());
  await until(() => connection.redis.status === "connect");
  clock.advance(LONGEST_HANDSHAKE_MS);
  await until(() => lines.length > 0);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ problem: "not connected, no answer" });
  const call = createRedisCalls(connection).call(({ read }) => read(() => connection.redis.ping()));
  const told = expect(call).rejects.toThrow(
    `Redis cannot be reached (not connected, no answer within ${CALL_BUDGET_MS} ms)`,
  );
  await turn();
  clock.advance(CALL_BUDGET_MS);
  await told;
  proxy.resume();
  clock.advance(LONGEST_HANDSHAKE_MS);
  await until(() => connection.redis.status === "ready");
});

/** Calls that may be under way on one connection. */
const MAX_CALLS = 256;

test("of two thousand calls at once as many as may are under way, in order, and none is refused", async () => {
  const { connection } = await questions();
  const calls = createRedisCalls(connection);
  const begun: number[] = [];
  const counts: number[] = [];
  let underWay = 0;
  const all = Array.from({ length: 2_000 }, (_, n) =>
    calls.call(async ({ read }) => {
      begun.push(n);
      underWay += 1;
      counts.push(underWay);
      const answer = await read(() => connection.redis.ping());
      underWay -= 1;
      return answer;
    }),
  );
  expect(underWay).toBe(MAX_CALLS);
  expect(new Set(await Promise.all(all))).toEqual(new Set(["PONG"]));
  expect(Math.max(...counts)).toBe(MAX_CALLS);
  expect(begun).toEqual(begun.toSorted((a, b) => a - b));
});

test("the time of a call that waited for its turn begins with its first command, as long as Redis answers", async () => {
  const { clock, connection } = await questions();
  const calls = createRedisCalls(connection);
  const free: ((answer: string) => void)[] = [];
  const first = Array.from({ length: MAX_CALLS }, () =>
    calls.call(({ read }) => read(() => new Promise<string>((resolve) => free.push(resolve)))),
  );
  let isSent = false;
  let isOver = false;
  const last = calls
    .call(({ read }) =>
      read(() => {
        isSent = true;
        return new Promise<string>(() => {});
      }),
    )
    .catch(() => {
      isOver = true;
    });
  const passes = async (ms: number) => {
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      clock.advance(50);
      await connection.redis.ping();
    }
  };
  await turn();
  expect(free).toHaveLength(MAX_CALLS);
  await passes(CALL_BUDGET_MS - 100);
  expect(isSent).toBe(false);
  for (const answer of free) answer("heard");
  await Promise.all(first);
  await until(() => isSent);
  await passes(CALL_BUDGET_MS - 50);
  expect(isOver).toBe(false);
  await passes(100);
  await last;
  expect(isOver).toBe(true);
});

/** Calls of which as many as may are under way and end when the test says so, and one that waits for its turn. */
async function fullLine() {
  const { clock, connection } = await questions();
  const calls = createRedisCalls(connection);
  const free = latch();
  const first = Array.from({ length: MAX_CALLS }, () => calls.call(() => free.opened));
  const seen = { isSent: false, problem: "" };
  void calls
    .call(({ read }) =>
      read(() => {
        seen.isSent = true;
        return never();
      }),
    )
    .catch((error: Error) => {
      seen.problem = error.message;
    });
  const passes = async (ms: number, isAnswering: boolean) => {
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      clock.advance(50);
      await (isAnswering ? connection.redis.ping() : turn());
    }
  };
  const begin = async () => {
    free.open();
    await Promise.all(first);
  };
  return { seen, passes, begin };
}

test("a call that waits for its turn is refused when Redis has been silent for the time of a call, however late that begins", async () => {
  const { seen, passes, begin } = await fullLine();
  await passes(2 * CALL_BUDGET_MS, true);
  await passes(CALL_BUDGET_MS - 50, false);
  expect(seen).toEqual({ isSent: false, problem: "" });
  await passes(CALL_BUDGET_MS / 2, false);
  expect(seen).toEqual({ isSent: false, problem: expect.stringMatching(/^Redis cannot be reached/) });
  await begin();
});

test("while Redis is silent the time in the line counts: a call whose turn comes late is not waited for anew", async () => {
  const { seen, passes, begin } = await fullLine();
  await passes(CALL_BUDGET_MS - 100, false);
  await begin();
  await until(() => seen.isSent);
  await passes(CALL_BUDGET_MS / 2, false);
  expect(seen.problem).toMatch(/^Redis cannot be reached/);
});
