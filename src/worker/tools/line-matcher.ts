/**
 * Matches lines against regular expressions on a thread that can be killed while an expression backtracks.
 *
 * Owns: the number of such threads in a process, and their ends. Nothing outlives `close()`.
 *
 * 1. No expression a model wrote is ever run on the main thread.
 * 2. The thread sees no environment variable and no loader of this process.
 */
import { Worker } from "node:worker_threads";
import { ToolFailure } from "./tool.ts";

/** A regular expression by its JavaScript source. */
export interface Expression {
  readonly source: string;
  readonly flags: string;
}

/** One thread, used by one call; calls to `match` follow one another. */
export interface LineMatcher {
  /**
   * The indices of the lines that match.
   *
   * @throws {ToolFailure} when the expression cannot be run, or the signal is aborted meanwhile.
   */
  match(expression: Expression, lines: readonly string[]): Promise<readonly number[]>;
  close(): Promise<void>;
}

/** Hands out matchers, a bounded number at a time; others wait in line. */
export interface LineMatcherPool {
  /** Waits for a free place, then starts a thread that dies when `signal` aborts. */
  open(signal: AbortSignal): Promise<LineMatcher>;
}

const MAX_THREADS = 4;
const MAX_THREAD_HEAP_MB = 64;

const THREAD_SOURCE = `
const { parentPort } = require("node:worker_threads");
const compiled = new Map();
parentPort.on("message", ({ expression, lines }) => {
  const key = expression.flags + "/" + expression.source;
  const hits = [];
  try {
    let regex = compiled.get(key);
    if (!regex) compiled.set(key, (regex = new RegExp(expression.source, expression.flags)));
    for (let i = 0; i < lines.length; i++) if (regex.test(lines[i])) hits.push(i);
    parentPort.postMessage({ hits });
  } catch (error) {
    parentPort.postMessage({ problem: String(error && error.name) });
  }
});
`;

/** A pool for one process; it owns nothing until a matcher is opened. */
export function createLineMatcherPool(maxThreads: number = MAX_THREADS): LineMatcherPool {
  let free = maxThreads;
  const waiting: (() => void)[] = [];
  const release = (): void => {
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  };
  const acquire = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(stopped());
      if (free > 0) {
        free--;
        return resolve();
      }
      const take = (): void => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = (): void => {
        waiting.splice(waiting.indexOf(take), 1);
        reject(stopped());
      };
      waiting.push(take);
      signal.addEventListener("abort", leave, { once: true });
    });
  return {
    async open(signal) {
      await acquire(signal);
      return startMatcher(signal, release);
    },
  };
}

interface Reply {
  readonly hits?: readonly number[];
  readonly problem?: string;
}

function stopped(): ToolFailure {
  return new ToolFailure("The search was stopped.");
}

function startMatcher(signal: AbortSignal, release: () => void): LineMatcher {
  const thread = new Worker(THREAD_SOURCE, {
    eval: true,
    env: {},
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: MAX_THREAD_HEAP_MB },
  });
  let pending: { resolve(hits: readonly number[]): void; reject(failure: ToolFailure): void } | undefined;
  let ended: ToolFailure | undefined;
  let closing: Promise<void> | undefined;
  const end = (failure: ToolFailure): void => {
    ended ??= failure;
    pending?.reject(ended);
    pending = undefined;
  };
  const onAbort = (): void => {
    end(stopped());
    void thread.terminate();
  };
  signal.addEventListener("abort", onAbort, { once: true });
  thread.on("message", ({ hits, problem }: Reply) => {
    if (hits !== undefined) pending?.resolve(hits);
    else pending?.reject(new ToolFailure(`The pattern cannot be run (${problem}); use a simpler one.`));
    pending = undefined;
  });
  thread.on("error", () => end(new ToolFailure("The pattern needs too much memory; use a simpler one.")));
  thread.on("exit", () => end(stopped()));
  if (signal.aborted) onAbort();
  return {
    match: (expression, lines) =>
      new Promise((resolve, reject) => {
        if (ended !== undefined) return reject(ended);
        pending = { resolve, reject };
        thread.postMessage({ expression, lines });
      }),
    close() {
      closing ??= (async () => {
        signal.removeEventListener("abort", onAbort);
        await thread.terminate();
        release();
      })();
      return closing;
    },
  };
}
