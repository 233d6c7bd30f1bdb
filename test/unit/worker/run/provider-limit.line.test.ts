/** Guarantee: each worker looks once a second which runs may come back at a limiter that has opened, and wakes them. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import type { Pause } from "../../../../src/shared/redis/pause.ts";
import type { LimiterState, ProviderLimiter } from "../../../../src/shared/redis/provider-limiter.ts";
import type { ModelAnswer } from "../../../../src/worker/model/model.ts";
import type { Lease } from "../../../../src/worker/run/lease.ts";
import { createEarlyWakes, ProviderLimit } from "../../../../src/worker/run/provider-limit.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { until } from "../../../helpers/until.ts";

const SLOWED: LimiterState = {
  name: "a",
  state: "slowed",
  reason: "overloaded",
  limit: 2,
  holders: 0,
  waiting: 3,
};
const CLOSED: LimiterState = { ...SLOWED, name: "b", state: "closed", until: new Date(0).toISOString() };
const EMPTY: LimiterState = { ...SLOWED, name: "c", waiting: 0 };

const lease = { address: { tenant: "t", parentId: "p", uid: "sa-0" }, isLive: () => true } as Lease;

function scene(
  next: ProviderLimiter["next"],
  over: Partial<ProviderLimiter> = {},
  state: Pause["state"] = async () => undefined,
) {
  const clock = handClock();
  const woken: string[] = [];
  const limit = new ProviderLimit({
    limiter: {
      acquire: () => Promise.reject(new TypeError("not asked")),
      keep: () => Promise.reject(new TypeError("not asked")),
      release: () => Promise.reject(new TypeError("not asked")),
      list: async () => [SLOWED, CLOSED, EMPTY],
      line: async () => [],
      next,
      ...over,
    },
    tellOthers: () => {},
    async wakeEarly(run) {
      woken.push(run);
      return !run.startsWith("gone");
    },
    pause: { state },
    clock,
    timing: TIMING,
    logger: createLogger({ level: "silent" }),
  });
  limit.start();
  closeAtEnd(() => limit.stop());
  return { clock, limit, woken };
}

test("the runs that an open limiter calls are woken, once a second; closed ones and those without a line are not asked", async () => {
  const asked: string[] = [];
  const { clock, woken } = scene(async (name) => {
    asked.push(name);
    return [`${name}/${asked.length}`];
  });
  await until(() => woken.length === 1);
  clock.advance(1_000);
  await until(() => woken.length === 2);
  expect(asked).toEqual(["a", "a"]);
  expect(woken).toEqual(["a/1", "a/2"]);
});

test("a line that cannot be asked is asked again with the next look", async () => {
  let asked = 0;
  const { clock, woken } = scene(async () => {
    asked += 1;
    if (asked === 1) throw new TypeError("away");
    return ["t/p/u"];
  });
  await until(() => asked === 1);
  await until(() => {
    clock.advance(1_000);
    return woken.length > 0;
  });
  expect(woken[0]).toBe("t/p/u");
});

test("a run is woken by the wake that it waits for; one that comes by itself is left alone, and one that is gone is told", async () => {
  const promoted: unknown[] = [];
  const answers = {
    waits: { status: "promoted", wake: 7 },
    runs: { status: "coming" },
    gone: { status: "gone" },
  } as const;
  const store = {
    promote: async ({ uid }: { uid: string }) => answers[uid as keyof typeof answers],
    runState: () => Promise.reject(new TypeError("not asked")),
  };
  const wakeEarly = createEarlyWakes(store, { promote: async (wake) => void promoted.push(wake) });
  const runs = ["t/p/waits", "t/p/runs", "t/p/gone", "of an earlier version"];
  expect(await Promise.all(runs.map((run) => wakeEarly(run)))).toEqual([true, true, false, false]);
  expect(promoted).toEqual([{ uid: "waits", wake: 7 }]);
});

test("in place of runs that will not come others are called at once, and their places are given back", async () => {
  const line = [["gone/1", "t/p/a"], ["gone/2"], ["t/p/b"], ["t/p/not asked"]];
  const released: string[] = [];
  const { woken } = scene(async () => line.shift() ?? [], {
    async release(_name, run, admission, how) {
      released.push(run);
      expect([admission.holdsSlot, how.outcome]).toEqual([false, "neutral"]);
      return "left";
    },
  });
  await until(() => woken.length === 4);
  expect(woken).toEqual(["gone/1", "t/p/a", "gone/2", "t/p/b"]);
  expect(released).toEqual(["gone/1", "gone/2"]);
});

test("a line of runs that will not come is left for the next look after fifty rounds", async () => {
  let asked = 0;
  const { clock } = scene(
    async () => {
      asked += 1;
      return ["gone"];
    },
    { release: async () => "left" },
  );
  await until(() => asked === 50);
  await new Promise(setImmediate);
  expect(asked).toBe(50);
  clock.advance(1_000);
  await until(() => asked === 100);
});

test("no run is called while the installation is paused", async () => {
  let asked = 0;
  let read = 0;
  const paused = { at: new Date(0).toISOString(), reason: "night" };
  const next = async () => {
    asked += 1;
    return [];
  };
  const { clock } = scene(next, {}, async () => {
    read += 1;
    return read === 1 ? paused : undefined;
  });
  await until(() => read === 1);
  await new Promise(setImmediate);
  expect(asked).toBe(0);
  await until(() => {
    clock.advance(1_000);
    return asked > 0;
  });
});

test.for([
  ["tool_use", ["a"]],
  ["end_turn", ["a", "called/by/end"]],
] as const)(
  "a run that stops with %s gives its place on once it makes no further call",
  async ([stopReason, expected]) => {
    let asked = 0;
    const { limit, woken } = scene(async () => (asked++ === 0 ? ["a"] : ["called/by/end"]), {
      acquire: async () => ({ status: "open", enteredAt: 0, holdsSlot: true }),
      release: async () => "left",
    });
    await until(() => woken.length === 1);
    const permit = await limit.acquire("a", lease);
    if (permit.status !== "open") return expect.unreachable();
    await permit.release({ status: "answer", answer: { stopReason } as ModelAnswer });
    // Three steps of promises, all of them answered at once.
    await new Promise(setImmediate);
    expect(woken).toEqual(expected);
  },
);

test("a run that ends in the middle of a pause gives its place to none", async () => {
  let asked = 0;
  const next = async () => {
    asked += 1;
    return [];
  };
  const open = {
    acquire: async () => ({ status: "open", enteredAt: 0, holdsSlot: true }) as const,
    release: async () => "left" as const,
  };
  let read = 0;
  const { limit } = scene(next, open, async () => {
    read += 1;
    return { at: new Date(0).toISOString(), reason: "night" };
  });
  await until(() => read === 1);
  await new Promise(setImmediate);
  const permit = await limit.acquire("a", lease);
  if (permit.status !== "open") return expect.unreachable();
  await permit.release({ status: "answer", answer: { stopReason: "end_turn" } as ModelAnswer });
  await new Promise(setImmediate);
  expect(asked).toBe(0);
});
