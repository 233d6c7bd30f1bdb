import { expect, test } from "vitest";
import {
  CHECK_MS,
  type OnWait,
  type TaskWait,
  type TaskWaitParts,
  type TaskWaits,
  watchTask,
  watchTaskWaits,
} from "../../../src/producer/task-wait-reasons.ts";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { StopSignal } from "../../../src/shared/stop-signal.ts";
import { handClock } from "../../helpers/hand-clock.ts";

const TASKS = 100;
/** What one look may ask of Redis. */
const RECORDS_OF_A_LOOK = 32;
const SAID_WITHIN_MS = 5_000;

const UNREADABLE = "sa-7";
const addressOf = (i: number): AgentAddress => ({ tenant: "t", parentId: "p", uid: `sa-${i}` });

/** Tasks of one client that are watched; each look is as told: whether a worker is live, whether there is a pause, and what each agent waits for. */
function scene() {
  const clock = handClock();
  const asked: string[][] = [];
  let [hasWorkers, waitsForTools, isAway, isPaused] = [true, true, false, false];
  const record = ({ uid }: AgentAddress) => {
    asked.at(-1)?.push(uid);
    if (uid === UNREADABLE) return Promise.reject(new Error("no record of this version"));
    const waiting = waitsForTools ? { tools_since: 1, needs_tools: "deploy" } : {};
    return Promise.resolve({ ...RECORD, uid, ...waiting });
  };
  const isAnyLive = () => {
    asked.push([]);
    return Promise.resolve(hasWorkers);
  };
  const parts = {
    clock,
    logger: undefined,
    store: { record },
    workers: { isAnyLive },
    pause: { state: () => Promise.resolve(isPaused ? { at: "2026-11-10T00:00:00.000Z" } : undefined) },
    read: (ask: () => unknown) => (isAway ? Promise.reject(new Error("away")) : ask()),
  } as unknown as TaskWaitParts;
  const waits = watchTaskWaits(parts);
  const told = new Map<string, (TaskWait["for"] | undefined)[]>();
  const forget = Array.from({ length: TASKS }, (_, i) => {
    const { uid } = addressOf(i);
    told.set(uid, []);
    return waits.watch(addressOf(i), (wait) => told.get(uid)?.push(wait?.for), true);
  });
  return {
    clock,
    waits,
    asked,
    told,
    forget,
    live(workers: boolean, tools: boolean) {
      [hasWorkers, waitsForTools] = [workers, tools];
    },
    away(now: boolean) {
      isAway = now;
    },
    pause(now: boolean) {
      isPaused = now;
    },
    async look() {
      clock.advance(CHECK_MS);
      for (let i = 0; i < 20; i++) await Promise.resolve();
    },
  };
}

const RECORD = {
  ...{
    agent_id: "a",
    name: "a",
    status: "queued",
    run: 1,
    created_at: 1,
    deadline: 8.64e15 + 1,
    spec: { model: "m", limits: {} },
  },
};
const LOOKS = Math.ceil(TASKS / RECORDS_OF_A_LOOK);

/** What every task hears but the one whose record cannot be read. */
const heardBy = (uid: string, ...heard: string[]) => (uid === UNREADABLE ? [] : heard);

test("of many tasks each is asked in turn, so many a look, and told once what it waits for; odd records stop no look", async () => {
  const { look, asked, told } = scene();
  for (let i = 0; i < LOOKS; i++) await look();
  expect(asked.map((uids) => uids.length)).toEqual(Array.from({ length: LOOKS }, () => RECORDS_OF_A_LOOK));
  expect(new Set(asked.flat()).size).toBe(TASKS);
  for (let i = 0; i < LOOKS; i++) await look();
  for (const [uid, heard] of told) expect(heard, uid).toEqual(heardBy(uid, "tools"));
});

test("all of many tasks are told in one look that no worker is live, and in one that there is one again", async () => {
  const { look, live, told, asked } = scene();
  live(false, false);
  await look();
  expect([...told.values()]).toEqual(Array.from({ length: TASKS }, () => ["worker"]));
  expect(asked.flat()).toEqual([]);
  live(true, false);
  await look();
  expect([...told.values()]).toEqual(Array.from({ length: TASKS }, () => ["worker", undefined]));
});

test("all of many tasks are told in one look of a pause, and in one of its end", async () => {
  const { look, live, pause, told, asked } = scene();
  live(true, false);
  pause(true);
  await look();
  expect([...told.values()]).toEqual(Array.from({ length: TASKS }, () => ["resume"]));
  expect(asked.flat()).toEqual([]);
  pause(false);
  await look();
  expect([...told.values()]).toEqual(Array.from({ length: TASKS }, () => ["resume", undefined]));
});

test("without a live worker all are told within 5 s of the clock, though the first look fails", async () => {
  const { look, live, away, told, clock } = scene();
  live(false, false);
  away(true);
  await look();
  away(false);
  while (clock.now() + CHECK_MS < SAID_WITHIN_MS) await look();
  expect([...told.values()]).toEqual(Array.from({ length: TASKS }, () => ["worker"]));
});

test("tasks that are over are asked for no more, and the last one ends the looking", async () => {
  const { look, asked, forget, clock } = scene();
  for (const end of forget.slice(1)) end();
  await look();
  await look();
  expect(asked).toEqual([["sa-0"], ["sa-0"]]);
  forget[0]?.();
  expect(clock.pending).toBe(0);
});

test("a wait for a worker begins when it is seen, not when an earlier task's began", async () => {
  const { look, live, forget, clock, waits } = scene();
  live(false, false);
  await look();
  for (const end of forget) end();
  clock.advance(60_000);
  const seenAtMs = clock.now() + CHECK_MS;
  const told: unknown[] = [];
  waits.watch(addressOf(0), (wait) => told.push(wait), true);
  await look();
  expect(told).toEqual([{ for: "worker", since: new Date(seenAtMs).toISOString() }]);
});

test("a task whose worker came in time is not ended for want of one, nor one that a worker may hold", async () => {
  const clock = handClock();
  let told: OnWait = () => {};
  const taskWaits: TaskWaits = {
    watch(_address, tell) {
      told = tell;
      return () => {};
    },
    mayBeHeld: () => Promise.resolve(mayBeHeld),
  };
  let mayBeHeld = true;
  const pass = async (ms: number) => {
    clock.advance(ms);
    await new Promise(setImmediate);
  };
  const reasons: unknown[] = [];
  const over = new StopSignal();
  const watch = { tellHandle: undefined, cancel: (reason: unknown) => void reasons.push(reason), over };
  const agent = { tenant: "t", parentId: "p", uid: "u" };
  watchTask({ taskWaits, clock }, agent, { wait_for_worker_ms: 1_000 }, watch);
  told({ for: "worker", since: "2026-11-10T00:00:00.000Z" });
  await pass(999);
  told(undefined);
  await pass(1_000);
  told({ for: "worker", since: "2026-11-10T00:00:02.000Z" });
  await pass(1_000);
  mayBeHeld = false;
  clock.advance(CHECK_MS);
  told(undefined);
  await new Promise(setImmediate);
  expect(reasons).toEqual([]);
  told({ for: "worker", since: "2026-11-10T00:00:04.000Z" });
  await pass(1_000);
  expect(reasons).toMatchObject([{ code: "no_worker" }]);
});
