/**
 * Guarantee: a write of a run that Redis refuses for a while waits, costs one command every 100 ms however many wait, and is
 * given up only with the process. `test/chaos/redis-refusing.test.ts` has a Redis that refuses.
 */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import type { AgentStore } from "../../../../src/shared/redis/agent-store.ts";
import { createWriteRetry, withWriteRetry } from "../../../../src/worker/run/write-retry.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const REFUSALS = [
  "BUSY Redis is busy running a script.",
  "LOADING Redis is loading the dataset in memory",
  "MASTERDOWN Link with MASTER is down",
  "MISCONF Errors writing to the AOF file: No space left on device",
  "NOREPLICAS Not enough good replicas to write.",
  "OOM command not allowed when used memory > 'maxmemory'.",
  "READONLY You can't write against a read only replica.",
];
const ASK_MS = 100;
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Writes to a Redis that refuses with `problem` until it is undefined. */
function scene(problem: string | undefined = REFUSALS[0]) {
  const clock = handClock();
  const abandoned = new AbortController();
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line).msg) } });
  const redis: { problem: string | undefined; sent: string[] } = { problem, sent: [] };
  const retry = createWriteRetry({ clock, logger, abandoned: abandoned.signal });
  const write = (name: string) =>
    retry(async () => {
      redis.sent.push(name);
      if (redis.problem !== undefined) throw new Error(redis.problem);
      return name;
    });
  /** Lets `ms` pass, and what follows happen. */
  const pass = async (ms: number) => {
    clock.advance(ms);
    await settled();
  };
  return { clock, abandoned, lines, redis, retry, write, pass };
}

test.each(REFUSALS)("a write waits while Redis says %j, and says so once", async (problem) => {
  const { redis, write, pass, lines } = scene(problem);
  const written = write("a");
  await settled();
  await pass(ASK_MS);
  expect(redis.sent).toEqual(["a", "a"]);
  redis.problem = undefined;
  await pass(ASK_MS - 1);
  expect(redis.sent).toHaveLength(2);
  await pass(1);
  expect(await written).toBe("a");
  expect(lines).toEqual(["Redis refuses writes; those of the runs here wait"]);
});

test("one write asks for all that wait; all follow when it is taken, and the next refusal is told again", async () => {
  const { redis, write, pass, lines } = scene();
  const written = Promise.all(["a", "b", "c"].map(write));
  await settled();
  expect(redis.sent).toEqual(["a", "b", "c"]);
  await pass(ASK_MS);
  await pass(ASK_MS);
  expect(redis.sent.slice(3)).toEqual(["a", "a"]);
  redis.problem = undefined;
  await pass(ASK_MS);
  expect(await written).toEqual(["a", "b", "c"]);
  expect(redis.sent.slice(5)).toEqual(["a", "b", "c"]);
  redis.problem = REFUSALS[1];
  const later = write("d");
  await settled();
  expect(lines).toHaveLength(2);
  redis.problem = undefined;
  await pass(ASK_MS);
  expect(await later).toBe("d");
});

test("a write to a node that refuses no more waits five seconds at most for one to another node", async () => {
  const { retry, pass } = scene();
  const nodes = { bad: true, good: false };
  let written = "";
  const write = (node: keyof typeof nodes) =>
    retry(async () => {
      if (nodes[node]) throw new Error("NOREPLICAS Not enough good replicas to write.");
      written = node;
    });
  nodes.good = true;
  const [asking, following] = [write("bad"), write("good")];
  await settled();
  nodes.good = false;
  for (let ms = 0; ms < 5_000 - ASK_MS; ms += ASK_MS) await pass(ASK_MS);
  expect(written).toBe("");
  await pass(ASK_MS);
  await following;
  expect(written).toBe("good");
  nodes.bad = false;
  await pass(ASK_MS);
  await asking;
});

test("a write that waits through a long refusal has one timer at a time, and none after it", async () => {
  const { redis, write, pass, clock } = scene();
  const written = Promise.all([write("asks"), write("follows")]);
  await settled();
  for (let tries = 0; tries < 3; tries++) {
    for (let ms = 0; ms < 5_000; ms += ASK_MS) await pass(ASK_MS);
    // One timer of the write that asks, one of the write that follows.
    expect(clock.pending).toBe(2);
  }
  redis.problem = undefined;
  await pass(ASK_MS);
  expect(await written).toEqual(["asks", "follows"]);
  expect(clock.pending).toBe(0);
});

test("when the write that asks fails in another way, the next one asks", async () => {
  const { redis, write, pass } = scene();
  const [first, second] = [write("a"), write("b")];
  await settled();
  redis.problem = "ERR no such script";
  const failed = expect(first).rejects.toThrow("ERR no such script");
  // The other one is sent at once as well, and is told the same.
  const alsoFailed = expect(second).rejects.toThrow("ERR no such script");
  await pass(ASK_MS);
  await Promise.all([failed, alsoFailed]);
  expect(redis.sent).toEqual(["a", "b", "a", "b"]);
});

test("another error rejects at once, also one that only mentions a refusal", async () => {
  for (const problem of ["Connection is closed.", "ERR it said NOREPLICAS before", "WRONGTYPE of a key"]) {
    const { redis, write, clock, lines } = scene(problem);
    await expect(write("a")).rejects.toThrow(problem);
    expect([redis.sent, clock.pending, lines]).toEqual([["a"], 0, []]);
  }
});

test("all writes reject with the refusal once the process can wait no longer", async () => {
  const { redis, write, abandoned, clock } = scene();
  const refused = ["a", "b"].map((name) => expect(write(name)).rejects.toThrow(REFUSALS[0]));
  await settled();
  abandoned.abort();
  await Promise.all(refused);
  expect(redis.sent).toEqual(["a", "b", "a", "b"]);
  expect(clock.pending).toBe(0);
});

test("what a run writes and reads waits; a claim, a renewal by itself and a sweeper's question do not", async () => {
  const { retry, pass, redis } = scene();
  const waits = [
    "append",
    "ask",
    "settle",
    "release",
    "charge",
    "claimed",
    "inbox",
    "load",
    "attached",
  ] as const;
  const rejects = ["claim", "renew", "overdue"] as const;
  const refusing = Object.fromEntries(
    [...waits, ...rejects].map((name) => [
      name,
      async (address: unknown, input: unknown) => {
        if (redis.problem !== undefined) throw new Error(redis.problem);
        return { name, address, input };
      },
    ]),
  );
  const store = withWriteRetry(refusing as unknown as AgentStore, retry);
  const call = (name: (typeof waits)[number] | (typeof rejects)[number]) =>
    Reflect.apply(store[name], store, ["address", "input"]);
  for (const name of rejects) await expect(call(name)).rejects.toThrow(REFUSALS[0]);
  const waiting = waits.map(call);
  await settled();
  redis.problem = undefined;
  await pass(ASK_MS);
  expect(await Promise.all(waiting)).toMatchObject(waits.map((name) => ({ name, address: "address" })));
});
