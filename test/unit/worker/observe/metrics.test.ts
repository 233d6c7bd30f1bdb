import { expect, onTestFinished, test, vi } from "vitest";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { BoundedNames, Metrics, type ObservedWorker } from "../../../../src/worker/observe/metrics.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

test("names that models choose are fifty labels at most, however many there are; the rest is other", () => {
  const names = new BoundedNames();
  const labels = Array.from({ length: 500 }, (_, n) => names.bounded(`tool_${n}`));
  expect(labels.slice(0, 50)).toEqual(Array.from({ length: 50 }, (_, n) => `tool_${n}`));
  expect(new Set(labels.slice(50))).toEqual(new Set(["other"]));
  expect(names.bounded("tool_7")).toBe("tool_7");
});

// The real monitor lives until it is collected, which counts as a leak.
vi.mock("node:perf_hooks", async (original) => ({
  ...(await original<object>()),
  monitorEventLoopDelay: () => ({
    mean: 0,
    max: 0,
    percentile: () => 0,
    reset() {},
    enable() {},
    disable() {},
  }),
}));

/** A worker whose Redis leaves each query unanswered until `comeBack`; `sent`: the number of queries. */
function cutOffWorker() {
  const clock = handClock();
  const waiting: (() => void)[] = [];
  let sent = 0;
  const unanswered = <T>(answer: T) => {
    sent += 1;
    return new Promise<T>((resolve) => waiting.push(() => resolve(answer)));
  };
  const redis = { time: () => unanswered(["1", "0"]), zrange: () => unanswered([]) };
  const worker = {
    ...{ redis, keys: keysUnder("saq"), clock, replyTtlMs: 1_000, activeRuns: () => 0 },
    pause: { state: () => unanswered(undefined) },
    wakes: { counts: () => unanswered({ waiting: 3 }) },
  } as unknown as ObservedWorker;
  const metrics = new Metrics(worker);
  const scrape = async () => {
    const scraped = metrics.scrape();
    clock.advance(1_000);
    return (await scraped).text;
  };
  const comeBack = () => {
    for (const answer of waiting.splice(0)) answer();
  };
  return { clock, scrape, comeBack, sent: () => sent };
}

test("scrapes during an outage leave one query of each kind, not one for each scrape", async () => {
  const { clock, scrape, comeBack, sent } = cutOffWorker();
  await scrape();
  const first = sent();
  for (let n = 0; n < 20; n++) {
    clock.advance(15_000);
    expect(await scrape()).not.toMatch(/^subagent_paused \d/m);
  }
  expect(sent()).toBe(first);
  comeBack();
  await vi.waitFor(async () => expect(await scrape()).toMatch(/^subagent_wakes\{state="waiting"\} 3$/m));
  clock.advance(15_000);
  await scrape();
  expect(sent()).toBeGreaterThan(first);
});

test("a scrape without a file descriptor for the resident memory has all other metrics", async () => {
  const { scrape } = cutOffWorker();
  expect(await scrape()).toMatch(/^process_resident_memory_bytes \d+$/m);
  const rss = vi.spyOn(process.memoryUsage, "rss").mockImplementation(() => {
    throw new Error("EMFILE: too many open files, uv_resident_set_memory");
  });
  onTestFinished(() => rss.mockRestore());
  const text = await scrape();
  expect(text).toMatch(/^subagent_runs_active 0$/m);
  expect(text).not.toMatch(/^process_resident_memory_bytes \d/m);
});
