/**
 * Matches lines against regular expressions, and names against `.gitignore` rules, on a thread that can be killed while
 * one of them backtracks.
 *
 * Owns: the number of such threads in a process, and their ends. Nothing outlives `close()`.
 *
 * 1. No expression and no rule that a model wrote is ever run on the main thread.
 * 2. The thread sees no environment variable and no loader of this process.
 */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import { ToolFailure } from "./tool.ts";

/** A regular expression by its JavaScript source. */
export interface Expression {
  readonly source: string;
  readonly flags: string;
}

/** The text of a `.gitignore`, and the way down from its directory: empty, or ending in a slash. */
export interface IgnoreFile {
  readonly text: string;
  readonly above: string;
}

/** One thread, used by one call; its questions follow one another. */
export interface LineMatcher {
  /**
   * The indices of the lines that match.
   *
   * @throws {ToolFailure} when the expression cannot be run, or the signal is aborted meanwhile.
   */
  match(expression: Expression, lines: readonly string[]): Promise<readonly number[]>;
  /**
   * The indices of the names that the first of `files` that speaks of them leaves out; directories end in a slash.
   *
   * @throws {ToolFailure} as `match` does.
   */
  ignored(files: readonly IgnoreFile[], names: readonly string[]): Promise<readonly number[]>;
  close(): Promise<void>;
}

/** Hands out matchers, a bounded number at a time; others wait in line. */
export interface LineMatcherPool {
  /** Waits for a free place, then starts a thread that dies when `signal` aborts. */
  open(signal: AbortSignal): Promise<LineMatcher>;
}

const require = createRequire(import.meta.url);

const MAX_THREADS = 4;
const MAX_THREAD_HEAP_MB = 64;

/** What a thread keeps compiled of each kind; far more than one walk has in force at a time. */
const MAX_COMPILED = 100;

const THREAD_SOURCE = `
const { parentPort, workerData } = require("node:worker_threads");
const compiled = new Map();
function once(key, compile) {
  if (!compiled.has(key)) {
    if (compiled.size >= ${MAX_COMPILED}) compiled.clear();
    compiled.set(key, compile());
  }
  return compiled.get(key);
}
function matches({ source, flags }, lines) {
  const regex = once("/" + source + "/" + flags, () => new RegExp(source, flags));
  return indices(lines, (line) => regex.test(line));
}
function ignored(files, names) {
  const ignore = require(workerData.ignore);
  const rules = files.map(({ text, above }) => ({ above, own: once(text, () => ignore().add(text)) }));
  return indices(names, (name) => {
    for (const { above, own } of rules) {
      const verdict = own.test(above + name);
      if (verdict.ignored || verdict.unignored) return verdict.ignored;
    }
    return false;
  });
}
function indices(texts, holds) {
  const hits = [];
  for (let i = 0; i < texts.length; i++) if (holds(texts[i])) hits.push(i);
  return hits;
}
parentPort.on("message", ({ expression, lines, files, names }) => {
  try {
    parentPort.postMessage({ hits: expression ? matches(expression, lines) : ignored(files, names) });
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
      try {
        return startMatcher(signal, release);
      } catch {
        release();
        throw new ToolFailure(
          "A search cannot be started now: the machine gives no thread. Try again later.",
        );
      }
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

function startThread(): Worker {
  return new Worker(THREAD_SOURCE, {
    eval: true,
    workerData: { ignore: require.resolve("ignore") },
    env: {},
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: MAX_THREAD_HEAP_MB },
  });
}

function startMatcher(signal: AbortSignal, release: () => void): LineMatcher {
  const thread = startThread();
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
  thread.on("error", () =>
    end(new ToolFailure("The search needs too much memory; use a simpler pattern or a narrower path.")),
  );
  thread.on("exit", () => end(stopped()));
  if (signal.aborted) onAbort();
  const ask = (question: object): Promise<readonly number[]> =>
    new Promise((resolve, reject) => {
      if (ended !== undefined) return reject(ended);
      pending = { resolve, reject };
      thread.postMessage(question);
    });
  return {
    match: (expression, lines) => ask({ expression, lines }),
    ignored: (files, names) => ask({ files, names }),
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
