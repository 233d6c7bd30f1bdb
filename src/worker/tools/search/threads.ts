/**
 * Owns the matching threads of a process, and ends those that compute for too long. `thread.js` is the program of a thread.
 *
 * 1. Every request is answered within seconds: a thread that is over its time limit is ended. That takes no file descriptor
 *    and no help of the thread, and V8 interrupts a regular expression for it.
 * 2. Requests are served in order of arrival.
 * 3. No request fails for the memory that earlier ones left in its thread: a new thread takes it.
 *
 * On Linux only the thread's CPU time counts, up to a limit of waiting: a pattern is not slow because a busy machine lets it wait.
 * A thread has no environment variables and no loader of this process.
 */
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { systemClock } from "../../../shared/clock.ts";
import { ToolFailure } from "../../../shared/errors.ts";
import { onAbort } from "../../../shared/stop-signal.ts";
import type { CpuReading, MatchAnswer, MatchRequest, ThreadMessage } from "./request.ts";

const MAX_THREAD_HEAP_MB = 64;
/** Least time between two looks at a thread, ms. */
const GRAIN_MS = 10;

interface Job {
  readonly request: MatchRequest;
  /** CPU time for the request, ms. */
  readonly limitMs: number;
  readonly resolve: (answer: MatchAnswer) => void;
  readonly reject: (failure: ToolFailure) => void;
}

interface Thread {
  readonly worker: Worker;
  job: Job | undefined;
  /** True once it has answered a job, whose compiled patterns it keeps. */
  hasAnswered: boolean;
  /** Cancels the time limit of the job. */
  unlimit: () => void;
}

/** Starts threads as jobs need them, and gives each thread the oldest job. */
export class ThreadPool {
  readonly #maxThreads: number;
  readonly #patienceMs: number;
  readonly #threads = new Set<Thread>();
  readonly #ending = new Set<Promise<unknown>>();
  readonly #waiting: Job[] = [];

  /** `patienceMs`: time limit of a request while its thread gets too little of the processor. */
  constructor(maxThreads: number, patienceMs: number) {
    this.#maxThreads = maxThreads;
    this.#patienceMs = patienceMs;
  }

  /**
   * Resolves to a thread's answer, or to `too_slow` if it takes more than `limitMs` of CPU time, or does not get that much for
   * too long. If `signal` aborts, the job leaves the queue or its thread is ended.
   *
   * @throws {ToolFailure} if `signal` aborts.
   * @throws {ToolFailure} `unavailable` if the machine gives no thread or no file descriptor.
   */
  submit(request: MatchRequest, limitMs: number, signal: AbortSignal): Promise<MatchAnswer> {
    if (signal.aborted) return Promise.reject(stopped());
    let forget = (): void => {};
    const answered = new Promise<MatchAnswer>((resolve, reject) => {
      const job: Job = { request, limitMs, resolve, reject };
      forget = onAbort(signal, () => this.#withdraw(job));
      this.#waiting.push(job);
      this.#assign();
    });
    return answered.finally(forget);
  }

  /** Ends every idle thread but one; resolves when all ended threads are gone. */
  async dismiss(): Promise<void> {
    const [_kept, ...others] = [...this.#threads].filter(({ job }) => job === undefined);
    for (const thread of others) this.#end(thread, (job) => job.reject(stopped()));
    await Promise.all(this.#ending);
  }

  #assign(): void {
    for (let job = this.#waiting[0]; job !== undefined; job = this.#waiting[0]) {
      const thread = [...this.#threads].find((one) => one.job === undefined) ?? this.#startFor(job);
      if (thread === undefined) {
        if (this.#waiting[0] === job) return;
        // It was refused, and the next one must not wait for a thread that none will bring.
        continue;
      }
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
      job.reject(unavailable());
      return undefined;
    }
  }

  #start(): Thread {
    const thread: Thread = {
      worker: startWorker(),
      job: undefined,
      hasAnswered: false,
      unlimit: () => undefined,
    };
    this.#threads.add(thread);
    thread.worker.on("message", (message: ThreadMessage) => {
      if ("begun" in message) return this.#limit(thread, message.begun);
      thread.worker.unref();
      thread.hasAnswered = true;
      this.#finish(thread, (job) => job.resolve(message.answer));
    });
    thread.worker.on("error", (error) => this.#end(thread, (job) => this.#settleLost(thread, job, error)));
    thread.worker.on("exit", () => this.#end(thread, (job) => job.reject(stopped())));
    return thread;
  }

  /** Ends the thread if its job, which has begun, takes too long. */
  #limit(thread: Thread, begun: CpuReading | undefined): void {
    const { job } = thread;
    if (job === undefined) return;
    const startedMs = systemClock.monotonicMs();
    const lookAfter = (ms: number): void => {
      const timer = systemClock.timeout(Math.max(ms, GRAIN_MS), look);
      thread.unlimit = () => timer.cancel();
    };
    const look = (): void => {
      const passedMs = systemClock.monotonicMs() - startedMs;
      const leftMs = job.limitMs - (computedMs(begun) ?? passedMs);
      const patienceMs = this.#patienceMs - passedMs;
      if (leftMs > 0 && patienceMs > 0) lookAfter(Math.min(leftMs, patienceMs));
      else this.#end(thread, ({ resolve }) => resolve({ problem: "too_slow", isStarved: leftMs > 0 }));
    };
    lookAfter(Math.min(job.limitMs, this.#patienceMs));
  }

  /** Settles the job of a thread that ended by itself, or lets another thread take it. */
  #settleLost({ hasAnswered }: Thread, job: Job, error: unknown): void {
    if (!isOutOfMemory(error)) job.reject(unavailable());
    else if (hasAnswered) this.#waiting.unshift(job);
    else job.reject(tooMuchMemory());
  }

  #finish(thread: Thread, settleJob: (job: Job) => void): void {
    const { job } = thread;
    thread.unlimit();
    thread.job = undefined;
    if (job !== undefined) settleJob(job);
    this.#assign();
  }

  /** Ends a thread, which keeps the process alive until it has ended. */
  #end(thread: Thread, settleJob: (job: Job) => void): void {
    if (!this.#threads.delete(thread)) return;
    const ended = thread.worker.terminate().finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
    this.#finish(thread, settleJob);
  }

  #withdraw(job: Job): void {
    const at = this.#waiting.indexOf(job);
    if (at >= 0) this.#waiting.splice(at, 1);
    const busy = [...this.#threads].find((thread) => thread.job === job);
    if (busy !== undefined) this.#end(busy, ({ reject }) => reject(stopped()));
    job.reject(stopped());
  }
}

/** Returns the thread's CPU time since it began, ms; undefined if it cannot be read. */
function computedMs(begun: CpuReading | undefined): number | undefined {
  if (begun === undefined) return undefined;
  try {
    return (nanoseconds(readFileSync(begun.file, "utf8")) - nanoseconds(begun.text)) / 1e6;
  } catch {
    return undefined;
  }
}

/** Returns the CPU time, the first of the numbers in the text of `/proc/…/schedstat`. */
function nanoseconds(text: string): number {
  return Number(text.split(" ")[0]);
}

function stopped(): ToolFailure {
  return new ToolFailure("The search was stopped.");
}

function unavailable(): ToolFailure {
  return new ToolFailure(
    "A search cannot be started now: the machine gives no thread or no file descriptor. Try again later.",
    "unavailable",
  );
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_WORKER_OUT_OF_MEMORY";
}

function tooMuchMemory(): ToolFailure {
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
