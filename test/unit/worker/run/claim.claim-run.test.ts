import { expect, test } from "vitest";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { claimRun, returnWake } from "../../../../src/worker/run/claim.ts";
import type { RunContext } from "../../../../src/worker/run/context.ts";
import type { RunSlot } from "../../../../src/worker/run-slots.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const among = (workers: number, random = 0) =>
  ({ random: () => random, workers: { count: async () => workers } }) as unknown as RunContext;

async function delayMs(context: RunContext, taken: number): Promise<number> {
  const end = await returnWake(context, "newer", taken);
  if (end.status !== "returned") throw new Error(end.status);
  return end.delayMs;
}

test.each([
  [1, 100, 200],
  [2, 200, 400],
  [4, 800, 1_600],
  [7, 5_000, 10_000],
  [50, 5_000, 10_000],
])("a wake that the only worker took for the %d. time rests for %d to %d ms", async (taken, least, most) => {
  expect(await delayMs(among(1, 0), taken)).toBe(least);
  expect(await delayMs(among(1, 0.999_999), taken)).toBeCloseTo(most, 0);
});

test("it visits as many workers as live before it rests, and then again", async () => {
  const delays = await Promise.all([1, 2, 3, 4, 5, 6, 7].map((taken) => delayMs(among(3), taken)));
  expect(delays).toEqual([0, 0, 100, 0, 0, 200, 0]);
  expect(await delayMs(among(0), 1)).toBe(100);
});

test("after a hundred rounds it is dropped", async () => {
  const ends = [200, 201, 202].map((taken) => returnWake(among(2), "newer", taken));
  expect((await Promise.all(ends)).map(({ status }) => status)).toEqual(["returned", "returned", "passed"]);
});

/** Claims for wake 1, where Redis answers with `answer`; `noted`: the claims that are still noted afterwards. */
async function claimAnswered(answer: () => Promise<object>) {
  let noted = 0;
  const context = {
    clock: handClock(),
    draining: new AbortController().signal,
    deadlines: { isOrdered: true, hint: async () => {} },
    leases: { beginClaim: () => void noted++, endClaim: () => void noted-- },
    store: { timing: TIMING, claim: answer },
    suspects: "in_another_process",
    toolNames: () => [],
    logger: { debug: () => {} },
    random: () => 0,
    workers: { count: async () => 2 },
  } as unknown as RunContext;
  const taken = { address: { tenant: "t", parentId: "p", uid: "u" }, wake: 1, timesTaken: 1 };
  const outcome = await claimRun(context, taken, {} as RunSlot).catch(() => ({ status: "rejected" }));
  return { outcome, noted };
}

const UNCLAIMED = [
  [{ status: "suspect", isolated_crashes: 0 }, { status: "isolate" }],
  [
    { status: "missing_tools", tools: ["look"] },
    { status: "returned", reason: "tools" },
  ],
  [{ status: "newer" }, { status: "returned", reason: "newer" }],
] as const;

test.for(UNCLAIMED)(
  "%j: a wake that a newer one has replaced is dropped, and no claim stays noted",
  async ([answer, own]) => {
    const replaced = await claimAnswered(async () => ({ ...answer, wake: 2 }));
    expect(replaced).toEqual({ outcome: { status: "passed", reason: "replaced" }, noted: 0 });
    expect(await claimAnswered(async () => ({ ...answer, wake: 1 }))).toMatchObject({
      outcome: own,
      noted: 0,
    });
  },
);

test("a claim that fails is noted no longer, one that succeeds until its lease is held", async () => {
  const failed = await claimAnswered(() => Promise.reject(new Error("READONLY")));
  expect(failed).toEqual({ outcome: { status: "rejected" }, noted: 0 });
  expect(await claimAnswered(async () => ({ status: "claimed", epoch: 1, wake: 1 }))).toMatchObject({
    noted: 1,
  });
});

test("a wake that comes early claims once more when the agent is free, and not before", async () => {
  const clock = handClock();
  const answers = [{ status: "held", wait_ms: 500, wake: 1 }, { status: "ended" }];
  const context = {
    clock,
    draining: new AbortController().signal,
    deadlines: { isOrdered: true, hint: async () => {} },
    leases: { beginClaim: () => {}, endClaim: () => {} },
    store: { timing: TIMING, claim: async () => answers.shift() },
    suspects: "in_this_process",
    toolNames: () => [],
  } as unknown as RunContext;
  const taken = { address: { tenant: "t", parentId: "p", uid: "u" }, wake: 1, timesTaken: 1 };
  const claimed = claimRun(context, taken, {} as RunSlot);
  const passed = async (ms: number) => {
    clock.advance(ms);
    await new Promise((resolve) => setImmediate(resolve));
    return answers.length;
  };
  expect([await passed(0), await passed(499), await passed(1)]).toEqual([1, 1, 0]);
  expect(await claimed).toEqual({ status: "passed", reason: "ended" });
});

test("a worker that drains waits for no agent that is free soon: it asks once", async () => {
  let claims = 0;
  const context = {
    clock: handClock(),
    draining: AbortSignal.abort(),
    deadlines: { isOrdered: true, hint: async () => {} },
    leases: { beginClaim: () => {}, endClaim: () => {} },
    store: {
      timing: TIMING,
      claim: async () => (++claims > 3 ? { status: "ended" } : { status: "held", wait_ms: 500, wake: 1 }),
    },
    suspects: "in_this_process",
    toolNames: () => [],
  } as unknown as RunContext;
  const taken = { address: { tenant: "t", parentId: "p", uid: "u" }, wake: 1, timesTaken: 1 };
  expect(await claimRun(context, taken, {} as RunSlot)).toMatchObject({ status: "returned" });
  expect(claims).toBe(1);
});
