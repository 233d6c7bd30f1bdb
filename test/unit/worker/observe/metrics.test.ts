import { expect, onTestFinished, test, vi } from "vitest";
import { ZERO_USAGE } from "../../../../src/shared/protocol/content.ts";
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

/** The event loop's lag since the last reset, ns: by the test, because the real monitor counts as a leak until it is collected. */
const lag = vi.hoisted(() => ({ nanoseconds: 0, isMeasured: false }));
vi.mock("node:perf_hooks", async (original) => ({
  ...(await original<object>()),
  monitorEventLoopDelay: () => ({
    get mean() {
      return lag.nanoseconds;
    },
    get max() {
      return lag.nanoseconds;
    },
    percentile: () => lag.nanoseconds,
    reset() {
      lag.nanoseconds = 0;
    },
    enable() {
      lag.isMeasured = true;
    },
    disable() {
      lag.isMeasured = false;
    },
  }),
}));

/** A worker whose Redis leaves each query unanswered until `comeBack`; `sent`: the number of queries. */
function cutOffWorker(paused?: { at: number }) {
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
    pause: { state: () => unanswered(paused) },
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

test("a lag of the event loop is told by the next scrape, in all its figures, and not by those after it", async () => {
  const { scrape } = cutOffWorker();
  const lags = async () =>
    [...(await scrape()).matchAll(/^nodejs_eventloop_lag_\w+ (.+)$/gm)].map(([, seconds]) => Number(seconds));
  // The sampling interval of 20 ms is no lag.
  lag.nanoseconds = 1.02e9;
  expect(await lags()).toEqual([1, 1, 1]);
  expect(await lags()).toEqual([0, 0, 0]);
});

test("a figure that Redis refused is asked for again by the next scrape, one that it has told after five seconds", async () => {
  const clock = handClock();
  let asked = 0;
  const worker = {
    ...{ redis: { time: async () => ["1", "0"], zrange: async () => [] }, keys: keysUnder("saq"), clock },
    ...{ replyTtlMs: 1_000, activeRuns: () => 0, pause: { state: async () => undefined } },
    wakes: {
      async counts() {
        asked += 1;
        if (asked === 1) throw new Error("BUSY Redis is busy running a script.");
        return { waiting: asked };
      },
    },
  } as unknown as ObservedWorker;
  const metrics = new Metrics(worker);
  const waiting = async () =>
    /^subagent_wakes\{state="waiting"\} (\d+)$/m.exec((await metrics.scrape()).text)?.[1];
  expect(await waiting()).toBeUndefined();
  expect(await waiting()).toBe("2");
  clock.advance(4_999);
  expect(await waiting()).toBe("2");
  clock.advance(1);
  expect(await waiting()).toBe("3");
});

test("a pause is told as 1, and its absence as 0", async () => {
  for (const [paused, figure] of [
    [{ at: 1 }, 1],
    [undefined, 0],
  ] as const) {
    const { scrape, comeBack } = cutOffWorker(paused);
    await scrape();
    comeBack();
    expect(await scrape()).toContain(`\nsubagent_paused ${figure}\n`);
  }
});

test("the lag of the event loop is measured from the start to the stop", () => {
  const { metrics } = answeredWorker();
  metrics.start();
  expect(lag.isMeasured).toBe(true);
  metrics.stop();
  expect(lag.isMeasured).toBe(false);
});

/** A worker whose Redis answers each query at once, until it is `away`. */
function answeredWorker() {
  const clock = handClock();
  const there = { isAway: false };
  const answered = async <T>(answer: T) => {
    if (there.isAway) throw new Error("Connection is closed.");
    return answer;
  };
  const worker = {
    ...{ keys: keysUnder("saq"), clock, replyTtlMs: 1_000, activeRuns: () => 0 },
    redis: {
      time: () => answered(["100", "0"]),
      zrange: () => answered(["member", "40000"]),
      zrevrange: () => answered([]),
    },
    pause: { state: () => answered(undefined) },
    wakes: { counts: () => answered({ waiting: 3 }) },
  } as unknown as ObservedWorker;
  return { metrics: new Metrics(worker), clock, there };
}

test("names that models choose are fifty labels of each figure at most", async () => {
  const { metrics } = answeredWorker();
  for (let n = 0; n < 60; n++) {
    metrics.answered(`m${n}`, 1);
    metrics.bought(`m${n}`, ZERO_USAGE, 1);
    metrics.refused(`k${n}`);
    metrics.toolCalled(`t${n}`, false, 1);
  }
  const { text } = await metrics.scrape();
  for (const [figure, label] of [
    ["turn_duration_seconds_count", "model"],
    ["tokens_total", "model"],
    ["cost_usd_total", "model"],
    ["model_refusals_total", "kind"],
    ["tool_duration_seconds_count", "tool"],
  ]) {
    const lines = text.matchAll(new RegExp(`^subagent_${figure}\\{.*?${label}="(\\w+)"`, "gm"));
    const names = new Set([...lines].map(([, name]) => name));
    expect([figure, names.size, names.has("other")]).toEqual([figure, 51, true]);
  }
});

test("what the installation came to is told in seconds, leaves no timer, and is untold when Redis is gone", async () => {
  const { metrics, clock, there } = answeredWorker();
  const FIGURES = /^subagent_(?:wakes|oldest_unacked_reply_seconds|sweeper_lag_seconds|paused)\b.* \d+$/gm;
  const figures = async () => (await metrics.scrape()).text.match(FIGURES);
  expect(await figures()).toEqual([
    'subagent_wakes{state="waiting"} 3',
    "subagent_oldest_unacked_reply_seconds 0",
    "subagent_sweeper_lag_seconds 60",
    "subagent_paused 0",
  ]);
  expect(clock.pending).toBe(0);
  there.isAway = true;
  clock.advance(5_000);
  expect(await figures()).toBeNull();
});

test("the oldest reply is that of a thousand parents at most: those inactive for longest whose replies are kept", async () => {
  const asked: unknown[][] = [];
  const redis = {
    time: async () => ["5", "0"],
    async zrange(...words: unknown[]) {
      asked.push(words);
      return [];
    },
  };
  const keys = keysUnder("saq");
  const worker = {
    ...{ redis, keys, clock: handClock(), replyTtlMs: 1_000, activeRuns: () => 0 },
    ...{ pause: { state: async () => undefined }, wakes: { counts: async () => ({}) } },
  } as unknown as ObservedWorker;
  await new Metrics(worker).scrape();
  expect(asked).toContainEqual([keys.parents, 4_000, "+inf", "BYSCORE", "LIMIT", 0, 1_000]);
});
