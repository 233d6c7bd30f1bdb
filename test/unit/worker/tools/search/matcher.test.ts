import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { createMatcherThreads } from "../../../../../src/worker/tools/search/matcher.ts";
import { spawnNode } from "../../../../helpers/processes.ts";

/** What Node was asked for. */
const threads = vi.hoisted(() => ({
  refused: false,
  started: [] as import("node:worker_threads").WorkerOptions[],
  asked: 0,
}));
vi.mock("node:worker_threads", async (original) => {
  const real = await original<typeof import("node:worker_threads")>();
  class Worker extends real.Worker {
    constructor(...args: ConstructorParameters<typeof real.Worker>) {
      if (threads.refused) throw new Error("EAGAIN");
      super(...args);
      threads.started.push(args[1] ?? {});
    }

    override postMessage(...args: Parameters<InstanceType<typeof real.Worker>["postMessage"]>) {
      threads.asked += 1;
      super.postMessage(...args);
    }
  }
  return { ...real, Worker };
});

/** What the system says of a thread's CPU time. */
const processor = vi.hoisted(() => ({ standsStill: false }));
vi.mock("node:fs", async (original) => {
  const real = await original<typeof import("node:fs")>();
  const readFileSync = (...args: Parameters<typeof real.readFileSync>) =>
    processor.standsStill && String(args[0]).endsWith("/schedstat") ? "0 0 0" : real.readFileSync(...args);
  return { ...real, readFileSync };
});

const signal = new AbortController().signal;
const bomb = { source: "^(a+)+$", flags: "" };
/** No linear engine takes a back reference. */
const endlessBomb = { source: "^(a+)+\\1?$", flags: "" };
beforeEach(() => {
  threads.started.length = 0;
  threads.asked = 0;
});

const endless = [`${"a".repeat(60)}!`];

describe("a matcher", () => {
  it("answers the indices of the lines that match, for several expressions", async () => {
    const matcher = createMatcherThreads().open(signal);
    expect(await matcher.lines({ source: "b", flags: "i" }, ["a", "B", "b"])).toEqual([1, 2]);
    expect(await matcher.lines({ source: "^a", flags: "" }, ["a", "ba"])).toEqual([0]);
    expect(await matcher.lines({ source: "a", flags: "" }, [])).toEqual([]);
    await matcher.close();
  });

  it("answers in linear time what V8 takes too long for, and asks V8 no more", async () => {
    const matcher = createMatcherThreads().open(signal);
    expect(await matcher.lines(bomb, ["b", "aa", ...endless, "aaa", ...endless])).toEqual([1, 3]);
    expect(threads.started).toHaveLength(2);
    expect(await matcher.lines(bomb, ["aa", ...endless])).toEqual([0]);
    expect(threads.started).toHaveLength(2);
    await matcher.close();
  });

  it("says so when an expression that only V8 knows takes too long, and serves the next one", async () => {
    const matcher = createMatcherThreads().open(signal);
    await expect(matcher.lines(endlessBomb, endless)).rejects.toMatchObject({ reason: "too_slow" });
    expect(await matcher.lines({ source: "x", flags: "" }, ["x"])).toEqual([0]);
    await matcher.close();
  });

  it("does not call an expression slow when it was the process that stood still", async () => {
    const child = await spawnNode("test/helpers/fixtures/searching-process.ts");
    await child.waitForLine("searching");
    while (child.isRunning && !child.stdout.some((said) => said.startsWith("answer"))) {
      child.freeze();
      await sleep(250);
      child.thaw();
      await sleep(60);
    }
    const { answer, lines } = JSON.parse((await child.waitForLine("answer ")).slice("answer ".length));
    expect(answer).toEqual([lines]);
  });

  it("gives up an expression whose thread gets no processor", async () => {
    const matcher = createMatcherThreads(1, 400).open(signal);
    processor.standsStill = true;
    await expect(matcher.lines(endlessBomb, endless)).rejects.toMatchObject({ reason: "too_slow" });
    processor.standsStill = false;
    await matcher.close();
  });

  it("gives up a glob that never compiles and one that never matches, and serves the next one", async () => {
    const matcher = createMatcherThreads().open(signal);
    await expect(matcher.paths("*\\\\\\\\", ["x"])).rejects.toMatchObject({ reason: "too_slow" });
    await expect(matcher.paths(`${"*a".repeat(40)}b`, ["a".repeat(250)])).rejects.toMatchObject({
      reason: "too_slow",
    });
    expect(await matcher.paths("*.ts", ["a.ts", "b.js"])).toEqual([0]);
    await matcher.close();
  });

  it("counts names from the first, however many there are", async () => {
    const matcher = createMatcherThreads().open(signal);
    const names = Array.from({ length: 2_500 }, (_, n) => `${n}`);
    expect(await matcher.paths("{0,999,1000,2499}", names)).toEqual([0, 999, 1_000, 2_499]);
    await matcher.close();
  });

  it("lets another search in between the batches of one that fills every thread", async () => {
    const crew = createMatcherThreads(1);
    const [greedy, modest] = [crew.open(signal), crew.open(signal)];
    const order: string[] = [];
    const evil = Promise.allSettled([greedy.lines(endlessBomb, endless), greedy.lines(endlessBomb, endless)]);
    const plain = modest.lines({ source: "x", flags: "" }, ["x"]).then(() => order.push("modest"));
    const late = greedy.lines(endlessBomb, endless).catch(() => order.push("greedy"));
    await Promise.all([evil, plain, late]);
    expect(order).toEqual(["modest", "greedy"]);
    await Promise.all([greedy.close(), modest.close()]);
  });

  it("kills a thread that is busy when its signal aborts, and the others go on", async () => {
    const crew = createMatcherThreads(1);
    const stop = new AbortController();
    const matcher = crew.open(stop.signal);
    const other = crew.open(signal);
    expect(await matcher.lines(bomb, ["a"])).toEqual([0]);
    const matching = matcher.lines(endlessBomb, endless);
    const waiting = other.lines(bomb, ["a"]);
    stop.abort();
    await expect(matching).rejects.toThrow("stopped");
    await expect(matcher.lines(bomb, ["a"])).rejects.toThrow("stopped");
    await matcher.close();
    expect(await waiting).toEqual([0]);
    expect(threads.started).toHaveLength(2);
    await other.close();
  });

  it("asks no thread for a call that gave up while it waited", async () => {
    const crew = createMatcherThreads(1);
    const [busy, stop] = [new AbortController(), new AbortController()];
    const [first, impatient, patient] = [crew.open(busy.signal), crew.open(stop.signal), crew.open(signal)];
    const holding = expect(first.lines(endlessBomb, endless)).rejects.toThrow("stopped");
    const gaveUp = expect(impatient.lines(bomb, ["a"])).rejects.toThrow("stopped");
    const waiting = patient.lines(bomb, ["a"]);
    stop.abort();
    busy.abort();
    await Promise.all([holding, gaveUp]);
    expect(await waiting).toEqual([0]);
    expect(threads.asked).toBe(2);
    await Promise.all([first.close(), impatient.close(), patient.close()]);
  });

  it("starts no more threads than it may, each without environment and with a bounded memory", async () => {
    const crew = createMatcherThreads(2);
    const matchers = Array.from({ length: 5 }, () => crew.open(signal));
    const answers = await Promise.all(matchers.map((matcher) => matcher.lines(bomb, ["a"])));
    expect(answers).toEqual(matchers.map(() => [0]));
    const options = { env: {}, execArgv: [], resourceLimits: { maxOldGenerationSizeMb: 64 } };
    expect(threads.started).toMatchObject([options, options]);
    await Promise.all(matchers.map((matcher) => matcher.close()));
  });

  it("leaves one thread for the next, which keeps no process alive", async () => {
    const crew = createMatcherThreads();
    const count = () => process.getActiveResourcesInfo().filter((name) => name === "MessagePort").length;
    const before = count();
    for (let round = 0; round < 3; round++) {
      const matchers = [crew.open(signal), crew.open(signal)];
      const answers = await Promise.all(matchers.map((matcher) => matcher.lines(bomb, ["a"])));
      expect(answers).toEqual([[0], [0]]);
      for (const matcher of matchers) await matcher.close();
      await matchers[0]?.close();
      expect(count()).toBe(before);
      // Two for the first round, and one beside the kept one for each other.
      expect(threads.started).toHaveLength(2 + round);
    }
  });

  it("says so when the machine gives no thread, and starts one for the next request", async () => {
    const matcher = createMatcherThreads(1).open(signal);
    threads.refused = true;
    await expect(matcher.lines(bomb, ["a"])).rejects.toThrow(/Try again later/);
    threads.refused = false;
    expect(await matcher.lines(bomb, ["a"])).toEqual([0]);
    await matcher.close();
  });

  it("answers which names the innermost .gitignore that speaks of them leaves out", async () => {
    const matcher = createMatcherThreads().open(signal);
    const files = [
      { text: "!kept.log\n", above: "" },
      { text: "*.log\n/sub/deep/\n", above: "sub/" },
    ];
    const names = ["a.ts", "a.log", "kept.log", "deep/", "deep"];
    expect(await matcher.ignored(files, names)).toEqual([1, 3]);
    await matcher.close();
  });

  it("keeps no more compiled rules than leave a thread its memory", async () => {
    const matcher = createMatcherThreads(1).open(signal);
    let rule = 0;
    for (let search = 0; search < 110; search++) {
      const text = Array.from({ length: 4_500 }, () => `${(rule++).toString(36)}\n`).join("");
      expect(await matcher.ignored([{ text, above: "" }], [`${(rule - 1).toString(36)}`])).toEqual([0]);
    }
    expect(threads.started).toHaveLength(1);
    await matcher.close();
  });

  it("says so of a search that needs more memory than a thread has, when a new thread had too little as well", async () => {
    const matcher = createMatcherThreads(1).open(signal);
    expect(await matcher.lines({ source: "b", flags: "" }, ["b"])).toEqual([0]);
    const lines = Array.from({ length: 2_500_000 }, (_, line) => `${line}`);
    const search = matcher.lines({ source: "b", flags: "" }, lines);
    await expect(search).rejects.toThrow(/too much memory/);
    expect(threads.started).toHaveLength(2);
    await matcher.close();
  });

  it("says so when an expression or a glob cannot be run", async () => {
    const matcher = createMatcherThreads().open(signal);
    await expect(matcher.lines({ source: "(", flags: "" }, ["x"])).rejects.toThrow(
      /not a valid JavaScript regular expression/,
    );
    await expect(matcher.paths("{{{{a,b}", [])).rejects.toThrow(/malformed/);
    await matcher.close();
  });
});
