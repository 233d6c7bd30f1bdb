/**
 * Owns the matching processes of this process, and ends those that compute for too long. `matcher-process.js` is their program.
 *
 * 1. Every request is answered within seconds: a process that is over its time limit is killed. That takes no file descriptor
 *    and no help of the process.
 * 2. Requests are served in order of arrival.
 * 3. No request fails for the memory that earlier ones left in its process: a new process takes it.
 * 4. No request ends this process: what one allocates counts to the heap of a matching process, which may die of it. V8 ends
 *    the whole process of a *thread* whose heap has no room for one large array, whatever limit the thread has (ADR 89).
 *
 * On Linux only the CPU time of the process counts, up to a limit of waiting: a pattern is not slow because a busy machine lets it
 * wait. A process has no environment variables and no loader of this process. It ends with this one: between requests at once,
 * within one by its limit of CPU time.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../../shared/clock.ts";
import { ToolFailure } from "../../../shared/errors.ts";
import { onAbort } from "../../../shared/stop-signal.ts";
import type { MatchAnswer, MatchRequest, ProcessMessage } from "./request.ts";

/** Heap of a process, MB: of objects that have lived a while, and of one half of those that have not. */
const MAX_HEAP_MB = 64;
const MAX_SEMI_SPACE_MB = 8;
/**
 * CPU time of a process in its whole life, s: one that has lost its owner within a request ends by it. Far above the time at
 * which a process asks to be replaced, and the longest request.
 */
const MAX_CPU_S = 60;
/** Least time between two looks at a process, ms. */
const GRAIN_MS = 10;

interface Job {
  readonly request: MatchRequest;
  /** CPU time for the request, ms. */
  readonly limitMs: number;
  readonly resolve: (answer: MatchAnswer) => void;
  readonly reject: (failure: ToolFailure) => void;
}

interface MatchingProcess {
  readonly child: ChildProcess;
  job: Job | undefined;
  /** True once it has answered a job, whose compiled patterns it keeps. */
  hasAnswered: boolean;
  /** Cancels the time limit of the job. */
  unlimit: () => void;
}

/** Starts processes as jobs need them, and gives each process the oldest job. */
export class ProcessPool {
  readonly #maxProcesses: number;
  readonly #patienceMs: number;
  readonly #processes = new Set<MatchingProcess>();
  readonly #ending = new Set<Promise<unknown>>();
  readonly #waiting: Job[] = [];

  /** `patienceMs`: time limit of a request while its process gets too little of the processor. */
  constructor(maxProcesses: number, patienceMs: number) {
    this.#maxProcesses = maxProcesses;
    this.#patienceMs = patienceMs;
  }

  /**
   * Resolves to the answer of a process, or to `too_slow` if it takes more than `limitMs` of CPU time, or does not get that much
   * for too long. If `signal` aborts, the job leaves the queue or its process is ended.
   *
   * @throws {ToolFailure} if `signal` aborts, or the job needs more memory than a process has.
   * @throws {ToolFailure} `unavailable` if the machine gives no process or no file descriptor.
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

  /** Ends every idle process but one; resolves when all ended processes are gone. */
  async dismiss(): Promise<void> {
    const [_kept, ...others] = [...this.#processes].filter(({ job }) => job === undefined);
    for (const other of others) this.#end(other, (job) => job.reject(stopped()));
    await Promise.all(this.#ending);
  }

  #assign(): void {
    for (let job = this.#waiting[0]; job !== undefined; job = this.#waiting[0]) {
      const free = [...this.#processes].find((one) => one.job === undefined) ?? this.#startFor(job);
      if (free === undefined) {
        if (this.#waiting[0] === job) return;
        // It was refused, and the next one must not wait for a process that none will bring.
        continue;
      }
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      free.job = job;
      hold(free.child);
      free.child.send(job.request, ignore);
    }
  }

  /** Starts a process. If the machine cannot, the job waits for another job's process, and fails only if there is none. */
  #startFor(job: Job): MatchingProcess | undefined {
    if (this.#processes.size >= this.#maxProcesses) return undefined;
    const child = startChild();
    if (child) return this.#own(child);
    if (this.#processes.size > 0) return undefined;
    this.#waiting.splice(this.#waiting.indexOf(job), 1);
    job.reject(unavailable());
    return undefined;
  }

  #own(child: ChildProcess): MatchingProcess {
    const owned: MatchingProcess = { child, job: undefined, hasAnswered: false, unlimit: () => undefined };
    this.#processes.add(owned);
    child.on("message", (message: ProcessMessage) => {
      if ("begun" in message) return this.#limit(owned, message.begun);
      owned.hasAnswered = true;
      const answerJob = (job: Job) => job.resolve(message.answer);
      if (message.retires) return this.#end(owned, answerJob);
      release(child);
      this.#finish(owned, answerJob);
    });
    child.on("exit", (_code, signal) => this.#end(owned, (job) => this.#settleLost(owned, job, signal)));
    return owned;
  }

  /** Ends the process if its job, which has begun, takes too long. */
  #limit(busy: MatchingProcess, begun: string | undefined): void {
    const { job } = busy;
    if (job === undefined) return;
    const startedMs = systemClock.monotonicMs();
    const lookAfter = (ms: number): void => {
      const timer = systemClock.timeout(Math.max(ms, GRAIN_MS), look);
      busy.unlimit = () => timer.cancel();
    };
    const look = (): void => {
      const passedMs = systemClock.monotonicMs() - startedMs;
      const leftMs = job.limitMs - (computedMs(busy.child, begun) ?? passedMs);
      const patienceMs = this.#patienceMs - passedMs;
      if (leftMs > 0 && patienceMs > 0) lookAfter(Math.min(leftMs, patienceMs));
      else this.#end(busy, ({ resolve }) => resolve({ problem: "too_slow", isStarved: leftMs > 0 }));
    };
    lookAfter(Math.min(job.limitMs, this.#patienceMs));
  }

  /** Settles the job of a process that ended by itself, or lets another process take it. */
  #settleLost({ hasAnswered }: MatchingProcess, job: Job, signal: NodeJS.Signals | null): void {
    if (signal === null || STOPPING.has(signal)) job.reject(unavailable());
    else if (hasAnswered) this.#waiting.unshift(job);
    else job.reject(tooMuchMemory());
  }

  #finish(done: MatchingProcess, settleJob: (job: Job) => void): void {
    const { job } = done;
    done.unlimit();
    done.job = undefined;
    if (job !== undefined) settleJob(job);
    this.#assign();
  }

  /** Ends a matching process, which keeps this process alive until it has ended. */
  #end(ended: MatchingProcess, settleJob: (job: Job) => void): void {
    if (!this.#processes.delete(ended)) return;
    const gone = whenGone(ended.child).finally(() => this.#ending.delete(gone));
    this.#ending.add(gone);
    this.#finish(ended, settleJob);
  }

  #withdraw(job: Job): void {
    const at = this.#waiting.indexOf(job);
    if (at >= 0) this.#waiting.splice(at, 1);
    const busy = [...this.#processes].find((one) => one.job === job);
    if (busy !== undefined) this.#end(busy, ({ reject }) => reject(stopped()));
    job.reject(stopped());
  }
}

/** Signals by which a terminal or a supervisor stops every process of a service: the search has not failed by itself. */
const STOPPING: ReadonlySet<NodeJS.Signals> = new Set(["SIGINT", "SIGTERM", "SIGHUP"]);

const SHELL = "/bin/sh";

/**
 * Starts a process that may not write a core file, nor compute without end, and that is the first to go if the machine has no
 * memory left; undefined if the machine cannot. Only a shell can set these bounds: on a machine without one (a distroless image)
 * the process has that of its heap alone.
 */
function startChild(): ChildProcess | undefined {
  const program = fileURLToPath(new URL("./matcher-process.js", import.meta.url));
  const heap = [`--max-old-space-size=${MAX_HEAP_MB}`, `--max-semi-space-size=${MAX_SEMI_SPACE_MB}`];
  const args = [...heap, program];
  if (!existsSync(SHELL)) return startProgram(process.execPath, args);
  const limits = `ulimit -c 0; ulimit -t ${MAX_CPU_S}; echo 1000 >/proc/self/oom_score_adj; exec "$@"`;
  return startProgram(SHELL, ["-c", limits, "sh", process.execPath, ...args]);
}

function startProgram(file: string, args: readonly string[]): ChildProcess | undefined {
  try {
    const child = spawn(file, args, {
      env: {},
      cwd: "/",
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      serialization: "advanced",
    });
    // A child that could not be started has no id, and says so by an event as well.
    child.on("error", ignore);
    return child.pid === undefined ? undefined : child;
  } catch {
    return undefined;
  }
}

/** Kills the child; resolves when it has ended. */
async function whenGone(child: ChildProcess): Promise<void> {
  hold(child);
  const ended = child.exitCode !== null || child.signalCode !== null;
  const gone = ended ? undefined : new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await gone;
}

/** Lets the child keep this process alive. */
function hold(child: ChildProcess): void {
  child.ref();
  child.channel?.ref();
}

/** Lets this process end while the child waits for a request; the child ends then, too. */
function release(child: ChildProcess): void {
  child.unref();
  child.channel?.unref();
}

/** A child that cannot be written to has ended, which its exit tells. */
function ignore(): void {}

/** Returns the CPU time of a process since its request began, ms; undefined if it cannot be read. */
function computedMs({ pid }: ChildProcess, begun: string | undefined): number | undefined {
  if (begun === undefined) return undefined;
  try {
    return (nanoseconds(readFileSync(`/proc/${pid}/schedstat`, "utf8")) - nanoseconds(begun)) / 1e6;
  } catch {
    return undefined;
  }
}

/** Returns the CPU time, the first of the numbers in the text of `/proc/<pid>/schedstat`. */
function nanoseconds(text: string): number {
  return Number(text.split(" ")[0]);
}

function stopped(): ToolFailure {
  return new ToolFailure("The search was stopped.");
}

function unavailable(): ToolFailure {
  return new ToolFailure(
    "A search cannot be started now: the machine gives no process or no file descriptor. Try again later.",
    "unavailable",
  );
}

function tooMuchMemory(): ToolFailure {
  return new ToolFailure("The search needs too much memory; use a simpler pattern or a narrower path.");
}
