import { describe, expect, it, vi } from "vitest";
import { createLineMatcherPool } from "../../../../src/worker/tools/line-matcher.ts";

const threads = vi.hoisted(() => ({ refused: false }));
vi.mock("node:worker_threads", async (original) => {
  const real = await original<typeof import("node:worker_threads")>();
  class Worker extends real.Worker {
    constructor(...args: ConstructorParameters<typeof real.Worker>) {
      if (threads.refused) throw new Error("EAGAIN");
      super(...args);
    }
  }
  return { ...real, Worker };
});

const bomb = { source: "^(a+)+$", flags: "" };
const endless = [`${"a".repeat(60)}!`];

describe("a pool of line matchers", () => {
  it("answers the indices of the lines that match, for several expressions", async () => {
    const matcher = await createLineMatcherPool().open(new AbortController().signal);
    expect(await matcher.match({ source: "b", flags: "i" }, ["a", "B", "b"])).toEqual([1, 2]);
    expect(await matcher.match({ source: "^a", flags: "" }, ["a", "ba"])).toEqual([0]);
    expect(await matcher.match({ source: "a", flags: "" }, [])).toEqual([]);
    await matcher.close();
  });

  it("lets a waiting call in when a place is free, and forgets one that gave up", async () => {
    const pool = createLineMatcherPool(1);
    const first = await pool.open(new AbortController().signal);
    const impatient = new AbortController();
    const second = pool.open(impatient.signal);
    const third = pool.open(new AbortController().signal);
    impatient.abort();
    await expect(second).rejects.toThrow("stopped");
    await first.close();
    await first.close();
    const matcher = await third;
    expect(await matcher.match({ source: "x", flags: "" }, ["x"])).toEqual([0]);
    await matcher.close();
    await expect(pool.open(AbortSignal.abort())).rejects.toThrow("stopped");
  });

  it("kills a thread that is busy when its signal aborts, and gives its place back", async () => {
    const pool = createLineMatcherPool(1);
    const stop = new AbortController();
    const matcher = await pool.open(stop.signal);
    expect(await matcher.match(bomb, ["a"])).toEqual([0]);
    const matching = matcher.match(bomb, endless);
    stop.abort();
    await expect(matching).rejects.toThrow("stopped");
    await expect(matcher.match(bomb, ["a"])).rejects.toThrow("stopped");
    await matcher.close();
    const next = await pool.open(new AbortController().signal);
    expect(await next.match(bomb, ["a"])).toEqual([0]);
    await next.close();
  });

  it("gives the place of a thread that the machine refused to the next call", async () => {
    const pool = createLineMatcherPool(1);
    threads.refused = true;
    await expect(pool.open(new AbortController().signal)).rejects.toThrow(/Try again later/);
    threads.refused = false;
    const matcher = await pool.open(AbortSignal.timeout(5_000));
    expect(await matcher.match({ source: "x", flags: "" }, ["x"])).toEqual([0]);
    await matcher.close();
  });

  it("answers which names the innermost .gitignore that speaks of them leaves out", async () => {
    const matcher = await createLineMatcherPool().open(new AbortController().signal);
    const files = [
      { text: "!kept.log\n", above: "" },
      { text: "*.log\n/sub/deep/\n", above: "sub/" },
    ];
    const names = ["a.ts", "a.log", "kept.log", "deep/", "deep"];
    expect(await matcher.ignored(files, names)).toEqual([1, 3]);
    await matcher.close();
  });

  it("says so when an expression cannot be run", async () => {
    const matcher = await createLineMatcherPool().open(new AbortController().signal);
    await expect(matcher.match({ source: "(", flags: "" }, ["x"])).rejects.toThrow(
      /cannot be run \(SyntaxError\)/,
    );
    await matcher.close();
  });
});
