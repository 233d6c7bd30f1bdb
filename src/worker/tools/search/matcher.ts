/**
 * Matches lines against regular expressions, names against globs and `.gitignore` rules, and JSON against JSON Schemas, on
 * threads that can be killed.
 *
 * Owns the matching threads of a process. When the last matcher closes, one stays for the next: a start costs 50 ms of CPU, as
 * much as 25 turns, and a thread that waits 16 MB. It keeps no process alive. `thread.js` is the code of a thread; `search.ts` decides
 * which search may open a matcher.
 *
 * 1. No expression, glob, rule or schema that a model or a stranger wrote is compiled or run on the main thread.
 * 2. Batches are served in order of arrival. A search has at most one batch in progress, so searches take turns and none
 *    waits for more than one batch of each other search.
 *
 * A thread has no environment variables and no loader of this process.
 */

import { Worker } from "node:worker_threads";
import { ToolFailure } from "../../../shared/errors.ts";
import { onAbort } from "../../../shared/stop-signal.ts";
import type { Expression, IgnoreFile, MatchAnswer, MatchRequest } from "./request.ts";

/** The matcher of one search; its requests are sequential. Every method throws {@link ToolFailure} once stopped. */
export interface Matcher {
  /**
   * Returns the indices of the lines that match.
   *
   * @throws {ToolFailure} `too_slow` if it times out and the expression cannot run in linear time.
   * @throws {ToolFailure} if it is no regular expression.
   */
  lines(expression: Expression, lines: readonly string[]): Promise<readonly number[]>;
  /**
   * Returns the indices of the relative paths that match the glob; dot files match like others.
   *
   * @throws {ToolFailure} `too_slow` if it times out.
   * @throws {ToolFailure} if the glob is malformed.
   */
  paths(glob: string, paths: readonly string[]): Promise<readonly number[]>;
  /**
   * Returns the indices of the ignored names: the first of `files` with a rule for a name decides. Directories end in "/".
   *
   * @throws {ToolFailure} `too_slow` if it times out.
   */
  ignored(files: readonly IgnoreFile[], names: readonly string[]): Promise<readonly number[]>;
  /**
   * Resolves to undefined if the JSON fits the JSON Schema, otherwise to one clause that says where it does not.
   *
   * @throws {ToolFailure} `too_slow` if it times out.
   * @throws {ToolFailure} if the schema is not usable.
   */
  mismatch(schema: string, json: string): Promise<string | undefined>;
  /** Resolves when no thread works for this matcher; the last matcher also ends all threads but one. Idempotent. */
  close(): Promise<void>;
}

/** Threads that matchers share; there are none until the first request. */
export interface MatcherThreads {
  /** Opens a matcher for one search. If `signal` aborts, the thread that works for it is killed. */
  open(signal: AbortSignal): Matcher;
}

/** More than one, so that a batch that uses all its time does not block other searches while another thread is free. */
const MAX_THREADS = 2;
const MAX_THREAD_HEAP_MB = 64;
/** Names of one request: few enough that ordinary rules need a fraction of its time. */
const BATCH_NAMES = 1_000;

interface Job {
  readonly request: MatchRequest;
  readonly resolve: (answer: MatchAnswer) => void;
  readonly reject: (failure: ToolFailure) => void;
}

interface Thread {
  readonly worker: Worker;
  job: Job | undefined;
}

/** Creates an owner of threads. */
export function createMatcherThreads(maxThreads: number = MAX_THREADS): MatcherThreads {
  const crew = new Crew(maxThreads);
  let open = 0;
  return {
    open(signal) {
      open++;
      let closing: Promise<void> | undefined;
      const ask = async (request: MatchRequest) => {
        const answer = await crew.submit(request, signal);
        if ("hits" in answer) return answer.hits;
        throw failureOf(request.kind, answer);
      };
      return {
        lines: (expression, texts) => ask({ kind: "lines", ...expression, texts }),
        paths: (pattern, texts) => inBatches(texts, (batch) => ask({ kind: "glob", pattern, texts: batch })),
        ignored: (files, texts) => inBatches(texts, (batch) => ask({ kind: "ignore", files, texts: batch })),
        async mismatch(schema, json) {
          const answer = await crew.submit({ kind: "schema", schema, texts: [json] }, signal);
          if ("hits" in answer) return undefined;
          if (answer.problem === "mismatch") return answer.message;
          throw failureOf("schema", answer);
        },
        close() {
          closing ??= --open === 0 ? crew.dismiss() : Promise.resolve();
          return closing;
        },
      };
    },
  };
}

async function inBatches(
  texts: readonly string[],
  ask: (batch: readonly string[]) => Promise<readonly number[]>,
): Promise<readonly number[]> {
  const hits: number[] = [];
  // Sends the first batch even if it is empty: a glob without names may be malformed, too.
  for (let from = 0; from === 0 || from < texts.length; from += BATCH_NAMES) {
    for (const index of await ask(texts.slice(from, from + BATCH_NAMES))) hits.push(from + index);
  }
  return hits;
}

/** Starts threads as jobs need them, and gives each thread the oldest job. */
class Crew {
  readonly #maxThreads: number;
  readonly #threads = new Set<Thread>();
  readonly #ending = new Set<Promise<unknown>>();
  readonly #waiting: Job[] = [];

  constructor(maxThreads: number) {
    this.#maxThreads = maxThreads;
  }

  /** Resolves to a thread's answer. If `signal` aborts, the job leaves the queue or its thread is killed. */
  submit(request: MatchRequest, signal: AbortSignal): Promise<MatchAnswer> {
    if (signal.aborted) return Promise.reject(stopped());
    let forget = (): void => {};
    const answered = new Promise<MatchAnswer>((resolve, reject) => {
      const job: Job = { request, resolve, reject };
      forget = onAbort(signal, () => this.#withdraw(job));
      this.#waiting.push(job);
      this.#assign();
    });
    return answered.finally(forget);
  }

  /** Ends every idle thread but one; resolves when all ended threads are gone. */
  async dismiss(): Promise<void> {
    const [_kept, ...others] = [...this.#threads].filter(({ job }) => job === undefined);
    for (const thread of others) this.#end(thread, stopped());
    await Promise.all(this.#ending);
  }

  #assign(): void {
    for (let job = this.#waiting[0]; job !== undefined; job = this.#waiting[0]) {
      const thread = [...this.#threads].find((one) => one.job === undefined) ?? this.#startFor(job);
      if (thread === undefined) return;
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      thread.job = job;
      thread.worker.ref();
      thread.worker.postMessage(job.request);
    }
  }

  /** Starts a thread. If the machine cannot, the job waits for another job's thread, and fails only if there is none. */
  #startFor(job: Job): Thread | undefined {
    if (this.#threads.size >= this.#maxThreads) return undefined;
    try {
      return this.#start();
    } catch {
      if (this.#threads.size > 0) return undefined;
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      job.reject(notNow());
      return undefined;
    }
  }

  #start(): Thread {
    const thread: Thread = { worker: startWorker(), job: undefined };
    this.#threads.add(thread);
    thread.worker.on("message", (answer: MatchAnswer) => this.#finish(thread, (job) => job.resolve(answer)));
    thread.worker.on("error", (error) => this.#end(thread, lostThread(error)));
    thread.worker.on("exit", () => this.#end(thread, stopped()));
    return thread;
  }

  #finish(thread: Thread, settleJob: (job: Job) => void): void {
    const { job } = thread;
    thread.job = undefined;
    thread.worker.unref();
    if (job !== undefined) settleJob(job);
    this.#assign();
  }

  #end(thread: Thread, failure: ToolFailure): void {
    if (!this.#threads.delete(thread)) return;
    const ended = thread.worker.terminate().finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
    this.#finish(thread, (job) => job.reject(failure));
  }

  #withdraw(job: Job): void {
    const at = this.#waiting.indexOf(job);
    if (at >= 0) this.#waiting.splice(at, 1);
    const busy = [...this.#threads].find((thread) => thread.job === job);
    if (busy !== undefined) this.#end(busy, stopped());
    job.reject(stopped());
  }
}

function failureOf(
  kind: MatchRequest["kind"],
  answer: Exclude<MatchAnswer, { hits: readonly number[] }>,
): ToolFailure {
  if (answer.problem === "no_descriptor") return notNow();
  if (kind === "schema")
    return new ToolFailure(
      answer.problem === "too_slow" ? "checking it takes too long" : "it is no valid JSON Schema",
    );
  if (answer.problem === "too_slow") {
    return new ToolFailure("The pattern takes too long; use a simpler one.", "too_slow");
  }
  return answer.problem === "invalid" && kind === "lines"
    ? new ToolFailure(`The pattern is not a valid JavaScript regular expression: ${answer.message}.`)
    : new ToolFailure("The pattern is malformed: check that its brackets and braces are balanced.");
}

function stopped(): ToolFailure {
  return new ToolFailure("The search was stopped.");
}

function notNow(): ToolFailure {
  return new ToolFailure(
    "A search cannot be started now: the machine gives no thread or no file descriptor. Try again later.",
  );
}

/** Returns the failure of the job whose thread has ended by itself, or did not start. */
function lostThread(error: unknown): ToolFailure {
  if (!(error instanceof Error && "code" in error && error.code === "ERR_WORKER_OUT_OF_MEMORY"))
    return notNow();
  return new ToolFailure("The search needs too much memory; use a simpler pattern or a narrower path.");
}

function startWorker(): Worker {
  return new Worker(new URL("./thread.js", import.meta.url), {
    env: {},
    execArgv: [],
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: MAX_THREAD_HEAP_MB },
  });
}

/** The threads of this process, for all its tools. */
export const matcherThreads: MatcherThreads = createMatcherThreads();
