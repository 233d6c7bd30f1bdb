/** Which suspects share a process, and what one of them knows of the others. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { createIsolationProcesses } from "../../../src/worker/isolation-processes.ts";
import type { RunContext } from "../../../src/worker/run/context.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { until } from "../../helpers/until.ts";

const file = join(import.meta.dirname, "../../helpers/fixtures/naming-suspects.mjs");
const SHARED = 0;
const ALONE = 1;
/** How often a run was taken: what the fixture does with it. */
const NAMES_OTHERS = 2;
const NOT_HELD = 3;
const CRASHES = 4;
const LAST = 5;
const GIVES_UP_MS = { timeoutMs: 20_000 };

/** The processes of a worker of which Redis takes no release; suspects are named in the order in which they come. */
function suspectsOf(concurrency: number) {
  const clock = handClock();
  const context = { clock, logger: createLogger({ level: "silent" }) } as unknown as RunContext;
  const processes = createIsolationProcesses(context, { file }, { concurrency, drainGraceMs: 100 });
  closeAtEnd(() => processes.stop());
  let made = 0;
  const run = (isolatedCrashes: number, timesTaken = 1) => {
    made += 1;
    const address = { tenant: "t", parentId: "p", uid: `sa-${made}` };
    return processes.run({ address, wake: 1, timesTaken }, isolatedCrashes);
  };
  return { clock, processes, run };
}

const beside = (reason: string) => ({ status: "passed", reason });

test("suspects are spread over four processes and share the emptiest; none shares that of one that must be alone", async () => {
  const { processes, run } = suspectsOf(20);
  for (const crashes of [ALONE, SHARED, SHARED, SHARED]) expect(run(crashes)).toBeDefined();
  expect(await run(SHARED, NAMES_OTHERS)).toEqual(beside("sa-2"));
  // There is a place, but no process without a run.
  expect([processes.hasRoom, run(ALONE)]).toEqual([true, undefined]);
});

test("the next suspect shares the process with the fewest, and a process has no more than its share of the places", async () => {
  const { run } = suspectsOf(40);
  for (const _ of [1, 2, 3, 4, 5]) void run(SHARED);
  expect(await run(SHARED, NAMES_OTHERS)).toEqual(beside("sa-2"));
  const { run: runMore } = suspectsOf(40);
  for (const crashes of [ALONE, ALONE, ALONE, SHARED, SHARED, SHARED]) expect(runMore(crashes)).toBeDefined();
  expect(runMore(SHARED)).toBeUndefined();
});

test("a process in which one run goes on is not idle when another has ended", async () => {
  const { clock, run } = suspectsOf(20);
  for (const _ of [1, 2, 3, 4]) void run(SHARED);
  expect(await run(SHARED, NAMES_OTHERS)).toEqual(beside("sa-1"));
  clock.advance(10_000);
  expect(await run(SHARED, NAMES_OTHERS)).toEqual(beside("sa-1"));
});

test("a suspect waits for its process until that process holds it, and not until it holds another", async () => {
  const { processes, run } = suspectsOf(20);
  for (const timesTaken of [NOT_HELD, 1, 1, 1, 1]) void run(SHARED, timesTaken);
  expect(processes.awaits("sa-5")).toBe(true);
  await until(() => !processes.awaits("sa-5"), GIVES_UP_MS);
  expect(processes.awaits("sa-1")).toBe(true);
});

test("a run that its process crashed with is lost if Redis does not take it back; a later wake finds it", async () => {
  const { processes, run } = suspectsOf(1);
  expect(await run(SHARED, CRASHES)).toEqual({ status: "lost" });
  expect(processes.active()).toEqual([]);
});

test("a process that is gone leaves no timer", async () => {
  const { clock, run } = suspectsOf(1);
  expect(await run(SHARED, LAST)).toEqual(beside(""));
  await until(() => clock.pending === 0, GIVES_UP_MS);
});
