/** Guarantee: runs that will not come cost a limiter's line little, however many they are and however little room there is. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import type { LimiterState } from "../../../../src/shared/redis/provider-limiter.ts";
import { createEarlyWakes, ProviderLimit } from "../../../../src/worker/run/provider-limit.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { until } from "../../../helpers/until.ts";

const PROBED: LimiterState = {
  name: "a",
  state: "slowed",
  reason: "overloaded",
  limit: 1,
  holders: 0,
  waiting: 3,
};
const notAsked = () => Promise.reject(new TypeError("not asked"));

/** A limiter with room for one call, before which these runs wait; one whose name begins with `gone` will not come. */
function scene(runs: readonly string[], pageLength: number) {
  const waiting = [...runs];
  const seen = { woken: [] as string[], lookedAt: [] as string[], rounds: 0 };
  const limit = new ProviderLimit({
    limiter: {
      acquire: notAsked,
      keep: notAsked,
      list: async () => [PROBED],
      async next() {
        seen.rounds += 1;
        return waiting.splice(0, 1);
      },
      line: async () => waiting.slice(0, pageLength),
      async release(_name, run) {
        if (waiting.includes(run)) waiting.splice(waiting.indexOf(run), 1);
        return "left";
      },
    },
    tellOthers: () => {},
    async wakeEarly(run, how) {
      seen[how?.onlyChecks ? "lookedAt" : "woken"].push(run);
      return !run.startsWith("gone");
    },
    pause: { state: async () => undefined },
    clock: handClock(),
    timing: TIMING,
    logger: createLogger({ level: "silent" }),
  });
  closeAtEnd(() => limit.stop());
  return { limit, waiting, seen };
}

test("where one run will not come, those behind it that will not come leave the line with it", async () => {
  const gone = Array.from({ length: 500 }, (_, i) => `gone/${i}`);
  const { limit, waiting, seen } = scene([...gone, "t/p/comes", "t/p/next"], 100);
  limit.start();
  await until(() => seen.woken.includes("t/p/comes"));
  expect(seen.rounds).toBe(6);
  expect(waiting).toEqual(["t/p/next"]);
  expect(seen.lookedAt).not.toContain(seen.woken[0]);
});

test("a line whose runs come is not looked at", async () => {
  const { limit, waiting, seen } = scene(["t/p/comes", "gone/1"], 100);
  limit.start();
  await until(() => seen.woken.length === 1);
  await new Promise(setImmediate);
  expect([seen.lookedAt, waiting]).toEqual([[], ["gone/1"]]);
});

test("to look at a run wakes it not: it comes if it waits for a worker or has one", async () => {
  const statuses = {
    queued: "queued",
    running: "running",
    idle: "idle",
    waits: "waiting",
    over: "ended",
  } as const;
  const store = {
    promote: notAsked,
    async runState({ uid }: { uid: string }) {
      const status = statuses[uid as keyof typeof statuses];
      return status && { status, run: 1, created_at: 0 };
    },
  };
  const looks = createEarlyWakes(store, { promote: notAsked });
  const uids = [...Object.keys(statuses), "unknown"];
  const come = await Promise.all(uids.map((uid) => looks(`t/p/${uid}`, { onlyChecks: true })));
  expect(uids.filter((_, i) => come[i])).toEqual(["queued", "running"]);
  expect(await looks("of an earlier version", { onlyChecks: true })).toBe(false);
});
