/** When a task is told of a wait again, and when a client looks no more. */
import { expect, test } from "vitest";
import {
  CHECK_MS,
  type OnWait,
  type TaskWaitParts,
  watchTaskWaits,
} from "../../../src/producer/task-wait-reasons.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { latch } from "../../helpers/latch.ts";

const ADDRESS = { tenant: "t", parentId: "p", uid: "sa-0" };
const RECORD = {
  ...{ agent_id: "a", name: "a", status: "queued", run: 1, created_at: 1, deadline: 8.64e15 + 1 },
  spec: { model: "m", limits: {} },
};

/** A client whose Redis answers as given; `check` is one look at it. */
function scene(answers: { isAnyLive?: () => Promise<boolean>; record?: () => object; isAway?: boolean }) {
  const clock = handClock();
  const { isAnyLive = async () => true, record = () => RECORD } = answers;
  const lines: string[] = [];
  const parts = {
    clock,
    logger: { warn: (line: string) => lines.push(line) },
    store: { record: async () => record() },
    workers: { isAnyLive },
    pause: { state: async () => undefined },
    read: async (ask: () => unknown) => {
      if (answers.isAway) throw new Error("away");
      return ask();
    },
  } as unknown as TaskWaitParts;
  const waits = watchTaskWaits(parts);
  const watch = (told: OnWait, hasCallback: boolean) => waits.watch(ADDRESS, told, hasCallback);
  const check = async () => {
    clock.advance(CHECK_MS);
    await new Promise(setImmediate);
  };
  return { clock, lines, waits, watch, check };
}

test("a task that ends during a check is not checked again", async () => {
  const answered = latch<boolean>();
  const { clock, watch, check } = scene({ isAnyLive: () => answered.opened });
  const forget = watch(() => {}, true);
  await check();
  forget();
  answered.open(true);
  await new Promise(setImmediate);
  expect(clock.pending).toBe(0);
});

test("a wait for a provider is told once, however often the provider is tried", async () => {
  let tries = 0;
  const wait = { provider: "offline", reason: "overloaded" };
  const record = () => {
    tries += 1;
    return { ...RECORD, provider_wait: wait, provider_wait_since: 1, not_before: 8.64e15 - tries };
  };
  const { watch, check } = scene({ record });
  const told: unknown[] = [];
  watch((said) => told.push(said), true);
  await check();
  await check();
  expect(tries).toBe(2);
  expect(told).toMatchObject([{ for: "provider", ...wait }]);
});

test("that no worker is live is logged again if one was live meanwhile", async () => {
  let isLive = false;
  const { lines, watch, check } = scene({ isAnyLive: async () => isLive });
  watch(() => {}, false);
  await check();
  await check();
  expect(lines).toHaveLength(1);
  isLive = true;
  await check();
  isLive = false;
  await check();
  expect(lines).toHaveLength(2);
});

test("a worker may hold a run as long as Redis does not say that none does", async () => {
  expect(await scene({ isAway: true }).waits.mayBeHeld(ADDRESS)).toBe(true);
});
