import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { createIsolationProcesses } from "../../../src/worker/isolation-processes.ts";
import type { RunContext } from "../../../src/worker/run/context.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";

const FILE = join(import.meta.dirname, "../../helpers/fixtures/held-suspects.mjs");
/** Nothing crashes here with a run that it holds, so that Redis is asked for nothing. */
const KEEPING = { logger: createLogger({ level: "silent" }) } as unknown as RunContext;
const SHARED = 0;
const ALONE = 1;

const LONGEST_START_MS = 60_000;
const DRAIN_GRACE_MS = 100;

/** The processes of a worker with so many places, and suspects for them. */
function suspectsOf(concurrency: number, clock = handClock(), args: readonly string[] = []) {
  const context = { ...KEEPING, clock };
  const settings = { concurrency, drainGraceMs: DRAIN_GRACE_MS };
  const processes = createIsolationProcesses(context, { file: FILE, args }, settings);
  closeAtEnd(() => processes.stop());
  let made = 0;
  const run = (isolatedCrashes: number, timesTaken = 1) => {
    made += 1;
    const address = { tenant: "t", parentId: "p", uid: `sa-${made}` };
    return processes.run({ address, wake: 1, timesTaken }, isolatedCrashes);
  };
  return { processes, run };
}

test.each([
  [1, 1],
  [7, 1],
  [8, 2],
  [43, 10],
])(
  "of %d places %d are for suspects, and one that has left makes room for one",
  async (concurrency, places) => {
    const { processes, run } = suspectsOf(concurrency);
    for (let n = 1; n < places; n += 1) expect(run(SHARED)).toBeDefined();
    const passing = run(SHARED, 2);
    expect(processes.hasRoom).toBe(false);
    expect(run(SHARED)).toBeUndefined();
    expect(await passing).toEqual({ status: "passed", reason: "tried" });
    expect([run(SHARED) !== undefined, run(SHARED)]).toEqual([true, undefined]);
    expect(processes.active()).toHaveLength(places);
  },
);

test("suspects that need a process of their own take no more places than others", () => {
  const { processes, run } = suspectsOf(8);
  expect(run(SHARED)).toBeDefined();
  expect(run(ALONE)).toBeDefined();
  expect([run(ALONE), run(SHARED)]).toEqual([undefined, undefined]);
  expect(processes.active()).toHaveLength(2);
});

test("a process that one suspect had for itself is there for any when that one has left", async () => {
  const { run } = suspectsOf(1);
  expect(await run(ALONE, 2)).toEqual({ status: "passed", reason: "tried" });
  expect(await run(SHARED, 2)).toEqual({ status: "passed", reason: "tried" });
});

test("a process whose message cannot be read is ended, and its runs are given up as lost; the next has its place", async () => {
  const { processes, run } = suspectsOf(1);
  const unreadable = run(SHARED, 3);
  expect(await unreadable).toEqual({ status: "lost" });
  expect(processes.active()).toEqual([]);
  expect(await run(SHARED, 2)).toEqual({ status: "passed", reason: "tried" });
});

test("a process that takes runs is not ended when its time to start is over", async () => {
  const clock = handClock();
  const { processes, run } = suspectsOf(8, clock);
  expect(await run(SHARED, 2)).toEqual({ status: "passed", reason: "tried" });
  void run(SHARED);
  clock.advance(LONGEST_START_MS);
  // By the end of the other process' run this one's end would be known.
  expect(await run(SHARED, 2)).toEqual({ status: "passed", reason: "tried" });
  expect(processes.active()).toEqual(["sa-2"]);
});

test("a process that ends, because it had no run for a while, is given none: the next has one that stays", async () => {
  const clock = handClock();
  const { processes, run } = suspectsOf(12, clock);
  expect(await run(SHARED, 2)).toEqual({ status: "passed", reason: "tried" });
  clock.advance(10_000);
  void run(SHARED);
  // The first process does not end when told: it is killed.
  clock.advance(DRAIN_GRACE_MS + 15_000);
  expect(await run(SHARED, 2)).toEqual({ status: "passed", reason: "tried" });
  expect(processes.active()).toEqual(["sa-2"]);
});

test("a program that has started again is usable, however often it had not before", async () => {
  const directory = mkdtempSync(join(tmpdir(), "suspects-"));
  closeAtEnd(() => rmSync(directory, { recursive: true, force: true }));
  const broken = join(directory, "broken");
  const { processes, run } = suspectsOf(1, handClock(), [broken]);
  const failTwice = async () => {
    writeFileSync(broken, "");
    for (const _ of [1, 2]) expect(await run(SHARED)).toMatchObject({ status: "returned" });
    rmSync(broken);
  };
  await failTwice();
  expect(await run(SHARED, 3)).toEqual({ status: "lost" });
  await failTwice();
  expect(processes.isUsable).toBe(true);
});
