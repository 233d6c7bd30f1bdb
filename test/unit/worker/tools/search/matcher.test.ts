import { existsSync, readFileSync } from "node:fs";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";
import { matchingProcesses } from "../../../../helpers/matching-processes.ts";
import { spawnNode } from "../../../../helpers/processes.ts";
import { until } from "../../../../helpers/until.ts";

/** What Node was asked for. */
const processes = vi.hoisted(() => ({
  refused: false,
  started: [] as {
    args: readonly string[];
    options: object;
    child: import("node:child_process").ChildProcess;
  }[],
  asked: 0,
}));
vi.mock("node:child_process", async (original) => {
  const real = await original<typeof import("node:child_process")>();
  const spawn = (
    command: string,
    args: readonly string[],
    options: import("node:child_process").SpawnOptions,
  ) => {
    if (processes.refused) throw new Error("EAGAIN");
    const child = real.spawn(command, args, options);
    if (!args.at(-1)?.endsWith("matcher-process.js")) return child;
    processes.started.push({ args, options, child });
    const send = child.send.bind(child);
    return Object.assign(child, {
      send: (...message: Parameters<typeof send>) => {
        processes.asked += 1;
        return send(...message);
      },
    });
  };
  return { ...real, spawn };
});

/** What the system says of a process' CPU time. */
const processor = vi.hoisted(() => ({ standsStill: false }));
vi.mock("node:fs", async (original) => {
  const real = await original<typeof import("node:fs")>();
  const readFileSync = (...args: Parameters<typeof real.readFileSync>) =>
    processor.standsStill && String(args[0]).endsWith("/schedstat") ? "0 0 0" : real.readFileSync(...args);
  return { ...real, readFileSync };
});

/** Long enough for a search that a busy machine lets wait. */
const PATIENCE_MS = 120_000;
const signal = new AbortController().signal;
const bomb = { source: "^(a+)+$", flags: "" };
/** No linear engine takes a back reference. */
const endlessBomb = { source: "^(a+)+\\1?$", flags: "" };
beforeEach(() => {
  processes.started.length = 0;
  processes.asked = 0;
});

const endless = [`${"a".repeat(60)}!`];

describe("a matcher", () => {
  it("answers the indices of the lines that match, for several expressions", async () => {
    const matcher = createMatcherProcesses().open(signal);
    expect(await matcher.lines({ source: "b", flags: "i" }, ["a", "B", "b"])).toEqual([1, 2]);
    expect(await matcher.lines({ source: "^a", flags: "" }, ["a", "ba"])).toEqual([0]);
    expect(await matcher.lines({ source: "a", flags: "" }, [])).toEqual([]);
    await matcher.close();
  });

  it("answers in linear time what V8 takes too long for, and asks V8 no more", async () => {
    const matcher = createMatcherProcesses().open(signal);
    expect(await matcher.lines(bomb, ["b", "aa", ...endless, "aaa", ...endless])).toEqual([1, 3]);
    expect(processes.started).toHaveLength(2);
    expect(await matcher.lines(bomb, ["aa", ...endless])).toEqual([0]);
    expect(processes.started).toHaveLength(2);
    await matcher.close();
  });

  it("says so when an expression that only V8 knows takes too long, and serves the next one", async () => {
    const matcher = createMatcherProcesses().open(signal);
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

  it.runIf(process.platform === "linux")("its process ends with the one that it works for", async () => {
    const child = await spawnNode("test/helpers/fixtures/searching-process.ts");
    await child.waitForLine("found");
    const children = matchingProcesses(child.pid);
    expect(children).toHaveLength(1);
    await child.kill();
    await until(() => children.every((pid) => !existsSync(`/proc/${pid}`)));
  });

  it("gives up an expression whose process gets no processor", async () => {
    const matcher = createMatcherProcesses(1, 400).open(signal);
    processor.standsStill = true;
    await expect(matcher.lines(endlessBomb, endless)).rejects.toMatchObject({ reason: "too_slow" });
    processor.standsStill = false;
    await matcher.close();
  });

  it("gives up a glob that never compiles and one that never matches, and serves the next one", async () => {
    const matcher = createMatcherProcesses().open(signal);
    await expect(matcher.paths("*\\\\\\\\", ["x"])).rejects.toMatchObject({ reason: "too_slow" });
    await expect(matcher.paths(`${"*a".repeat(40)}b`, ["a".repeat(250)])).rejects.toMatchObject({
      reason: "too_slow",
    });
    expect(await matcher.paths("*.ts", ["a.ts", "b.js"])).toEqual([0]);
    await matcher.close();
  });

  it("counts names from the first, however many there are", async () => {
    const matcher = createMatcherProcesses().open(signal);
    const names = Array.from({ length: 2_500 }, (_, n) => `${n}`);
    expect(await matcher.paths("{0,999,1000,2499}", names)).toEqual([0, 999, 1_000, 2_499]);
    await matcher.close();
  });

  it("lets another search in between the batches of one that fills every process", async () => {
    const crew = createMatcherProcesses(1);
    const [greedy, modest] = [crew.open(signal), crew.open(signal)];
    const order: string[] = [];
    const evil = Promise.allSettled([greedy.lines(endlessBomb, endless), greedy.lines(endlessBomb, endless)]);
    const plain = modest.lines({ source: "x", flags: "" }, ["x"]).then(() => order.push("modest"));
    const late = greedy.lines(endlessBomb, endless).catch(() => order.push("greedy"));
    await Promise.all([evil, plain, late]);
    expect(order).toEqual(["modest", "greedy"]);
    await Promise.all([greedy.close(), modest.close()]);
  });

  it("kills a process that is busy when its signal aborts, and the others go on", async () => {
    const crew = createMatcherProcesses(1);
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
    expect(processes.started).toHaveLength(2);
    await other.close();
  });

  it("asks no process for a call that gave up while it waited", async () => {
    const crew = createMatcherProcesses(1);
    const [busy, stop] = [new AbortController(), new AbortController()];
    const [first, impatient, patient] = [crew.open(busy.signal), crew.open(stop.signal), crew.open(signal)];
    const holding = expect(first.lines(endlessBomb, endless)).rejects.toThrow("stopped");
    const gaveUp = expect(impatient.lines(bomb, ["a"])).rejects.toThrow("stopped");
    const waiting = patient.lines(bomb, ["a"]);
    stop.abort();
    busy.abort();
    await Promise.all([holding, gaveUp]);
    expect(await waiting).toEqual([0]);
    expect(processes.asked).toBe(2);
    await Promise.all([first.close(), impatient.close(), patient.close()]);
  });

  it("starts no more processes than it may, each without environment and with bounded memory and time", async () => {
    const crew = createMatcherProcesses(2);
    const matchers = Array.from({ length: 5 }, () => crew.open(signal));
    const answers = await Promise.all(matchers.map((matcher) => matcher.lines(bomb, ["a"])));
    expect(answers).toEqual(matchers.map(() => [0]));
    expect(processes.started).toHaveLength(2);
    for (const { args, options, child } of processes.started) {
      expect(options).toMatchObject({ env: {} });
      expect(args).toContain("--max-old-space-size=64");
      if (process.platform !== "linux") continue;
      const limits = readFileSync(`/proc/${child.pid}/limits`, "utf8");
      expect(limits).toMatch(/Max cpu time +60 +60 +seconds/);
      expect(limits).toMatch(/Max core file size +0 +0 +bytes/);
      expect(readFileSync(`/proc/${child.pid}/oom_score_adj`, "utf8")).toBe("1000\n");
    }
    await Promise.all(matchers.map((matcher) => matcher.close()));
  });

  it("leaves one process for the next, which keeps no other alive", async () => {
    const crew = createMatcherProcesses();
    const count = async () => {
      // A handle counts until the loop has closed it: after the immediate callbacks of its turn.
      for (let turn = 0; turn < 2; turn++) await setImmediate();
      return process.getActiveResourcesInfo().filter((name) => name === "ProcessWrap").length;
    };
    const before = await count();
    for (let round = 0; round < 3; round++) {
      const matchers = [crew.open(signal), crew.open(signal)];
      const answers = await Promise.all(matchers.map((matcher) => matcher.lines(bomb, ["a"])));
      expect(answers).toEqual([[0], [0]]);
      for (const matcher of matchers) await matcher.close();
      await matchers[0]?.close();
      expect(await count()).toBe(before);
      // Two for the first round, and one beside the kept one for each other.
      expect(processes.started).toHaveLength(2 + round);
    }
  });

  it("says so when the machine gives no process, and starts one for the next request", async () => {
    const matcher = createMatcherProcesses(1).open(signal);
    processes.refused = true;
    await expect(matcher.lines(bomb, ["a"])).rejects.toThrow(/Try again later/);
    processes.refused = false;
    expect(await matcher.lines(bomb, ["a"])).toEqual([0]);
    await matcher.close();
  });

  it("answers which names the innermost .gitignore that speaks of them leaves out", async () => {
    const matcher = createMatcherProcesses().open(signal);
    const files = [
      { text: "!kept.log\n", above: "" },
      { text: "*.log\n/sub/deep/\n", above: "sub/" },
    ];
    const names = ["a.ts", "a.log", "kept.log", "deep/", "deep"];
    expect(await matcher.ignored(files, names)).toEqual([1, 3]);
    await matcher.close();
  });

  it("keeps no more compiled rules than leave a process its memory", async () => {
    const matcher = createMatcherProcesses(1, PATIENCE_MS).open(signal);
    let rule = 0;
    for (let search = 0; search < 110; search++) {
      const text = Array.from({ length: 4_500 }, () => `${(rule++).toString(36)}\n`).join("");
      expect(await matcher.ignored([{ text, above: "" }], [`${(rule - 1).toString(36)}`])).toEqual([0]);
    }
    expect(processes.started).toHaveLength(1);
    await matcher.close();
  });

  it("says so of a search that needs more memory than a process has, when a new process had too little as well", async () => {
    const matcher = createMatcherProcesses(1, PATIENCE_MS).open(signal);
    expect(await matcher.lines({ source: "b", flags: "" }, ["b"])).toEqual([0]);
    const lines = Array.from({ length: 2_500_000 }, (_, line) => `${line}`);
    const search = matcher.lines({ source: "b", flags: "" }, lines);
    await expect(search).rejects.toThrow(/too much memory/);
    expect(processes.started).toHaveLength(2);
    await matcher.close();
  });

  it("survives an output that fills the memory of its process with one array", async () => {
    const matcher = createMatcherProcesses(1, PATIENCE_MS).open(signal);
    const numbers = `[${"1,".repeat(8_000_000)}1]`;
    await expect(matcher.mismatch("{}", numbers)).rejects.toThrow(/too much memory|too long/);
    expect(await matcher.mismatch("{}", "[1]")).toBeUndefined();
    await matcher.close();
  });

  it("says so when an expression or a glob cannot be run", async () => {
    const matcher = createMatcherProcesses().open(signal);
    await expect(matcher.lines({ source: "(", flags: "" }, ["x"])).rejects.toThrow(
      /not a valid JavaScript regular expression/,
    );
    await expect(matcher.paths("{{{{a,b}", [])).rejects.toThrow(/malformed/);
    await matcher.close();
  });
});
