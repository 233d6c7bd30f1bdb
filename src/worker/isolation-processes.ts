/**
 * Runs suspects in separate processes, so that a worker and all its other runs continue. A suspect is a run in which two
 * workers in a row crashed, or one worker while a tool of the run was executing; `claim.lua` counts.
 * Owns the processes and the assignment of suspects to them; `isolated-worker.ts` is the code inside.
 *
 * 1. Suspects take at most a quarter of the worker's slots (one at least); other runs always have the rest.
 * 2. Suspects share processes at first, spread over all of them. After its shared process has crashed, a suspect gets its
 *    own.
 * 3. The worker sees a process crash and tells Redis at once: no lease has to expire. A suspect that was alone in it is
 *    settled; several are each retried among fewer.
 * 4. A process whose worker is gone hands its runs back; this does not count as a crash.
 * 5. A suspect that waits for its process to start takes one slot, however often it is woken, and runs nowhere else. A
 *    process that does not start in time is killed, as is one that does not end after the grace of its runs.
 * 6. A process whose message cannot be read is killed. Its runs count as lost: a sweeper wakes their agents when their
 *    leases expire.
 */
import { type ChildProcess, fork } from "node:child_process";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { type Count, FromProcess, type Held, type ToProcess } from "./isolation-messages.ts";
import type { RunMetrics } from "./observe/metrics.ts";
import type { SuspectIsolation, TakenWake } from "./run/claim.ts";
import type { RunContext, RunOutcome } from "./run/context.ts";
import { releaseAgent } from "./run/failure.ts";

/** Most processes of one worker. Each process is a worker without a queue, of some 80 MB. */
const MOST_PROCESSES = 4;
/** Time for which a process without a run is kept for the next one. */
const IDLE_MS = 10_000;
/** Time after which a process that takes no runs yet is killed, because it hangs. */
const STARTS_WITHIN_MS = 60_000;
/** Time to end beyond the grace of its runs: 5 s for aborted calls and tools to report, and 10 s in reserve. */
const ENDS_WITHIN_MS = 15_000;
/** After this many processes in a row that ended before they took runs, the program counts as unusable. */
const MAX_FAILED_STARTS = 3;
/** Delay before a run is retried whose process ended before it took the run. */
const NOT_TAKEN_DELAY_MS = 1_000;

/** Program of a process of suspects. */
export interface IsolationProgram {
  /** Path of the program: it creates a worker with the same options and `isolated: true`, and starts it. */
  file: string;
  args?: readonly string[];
}

type IsolatedEnd = Exclude<RunOutcome, { status: "isolate" }>;

/** See the module's header. */
export interface IsolationProcesses {
  /** False after too many processes in a row failed to start. */
  readonly isUsable: boolean;
  /** True if a slot is free. */
  readonly hasRoom: boolean;
  /** Checks whether a suspect waits for its process to take it. */
  awaits(uid: string): boolean;
  /** Carries out a run in a process of suspects; undefined if no slot is free. */
  run(taken: TakenWake, isolatedCrashes: number): Promise<IsolatedEnd> | undefined;
  /** The uids of the suspects. */
  active(): string[];
  /** Hands every run back after its current step and takes no others. Idempotent. */
  drain(): void;
  /** Kills the remaining processes. Idempotent. */
  stop(): void;
}

/** Dependencies of a process of suspects. */
type ProcessContext = Pick<RunContext, "store" | "deadlines" | "wakes" | "clock" | "logger" | "observer">;

/** Creates processes for suspects, none started. */
export function createIsolationProcesses(
  context: ProcessContext,
  program: IsolationProgram,
  { concurrency, drainGraceMs }: { concurrency: number; drainGraceMs: number },
): IsolationProcesses {
  const slots = Math.max(1, Math.floor(concurrency / 4));
  const maxProcesses = Math.min(MOST_PROCESSES, slots);
  const groupSize = Math.ceil(slots / maxProcesses);
  const processes = new Set<SuspectsProcess>();
  let isDraining = false;
  let failedStarts = 0;
  const hasRoom = () => !isDraining && [...processes].reduce((sum, { size }) => sum + size, 0) < slots;
  const started = () => {
    if (processes.size >= maxProcesses) return undefined;
    const one = new SuspectsProcess(context, program, drainGraceMs, (wasReady) => {
      failedStarts = wasReady ? 0 : failedStarts + 1;
      processes.delete(one);
    });
    processes.add(one);
    return one;
  };
  /** Returns an empty process for a suspect that must run alone, otherwise the emptiest one. */
  const find = (isolation: SuspectIsolation): SuspectsProcess | undefined => {
    const open = [...processes].filter((one) => one.takes(isolation, groupSize));
    const emptiest = open.sort((a, b) => a.size - b.size)[0];
    return emptiest && emptiest.size === 0 ? emptiest : (started() ?? emptiest);
  };
  return {
    get isUsable() {
      return failedStarts < MAX_FAILED_STARTS;
    },
    get hasRoom() {
      return hasRoom();
    },
    awaits: (uid) => [...processes].some((one) => one.awaits(uid)),
    run(taken, isolatedCrashes) {
      if (!hasRoom()) return undefined;
      const isolation = isolatedCrashes > 0 ? "own_process" : "group";
      return find(isolation)?.run(taken, isolation);
    },
    active: () => [...processes].flatMap((one) => one.uids),
    drain() {
      isDraining = true;
      for (const one of processes) one.drain();
    },
    stop() {
      for (const one of processes) one.stop();
    },
  };
}

/** A run in a process of suspects. */
interface Suspect {
  address: AgentAddress;
  held: Held | undefined;
  end(end: IsolatedEnd): void;
}

class SuspectsProcess {
  readonly #context: ProcessContext;
  readonly #child: ChildProcess;
  readonly #runs = new Map<string, Suspect>();
  readonly #onGone: (wasReady: boolean) => void;
  #hasOneRun = false;
  #isReady = false;
  #isGone = false;
  /** Set: the process takes no more runs. `killed`: the end of its runs is not their crash. */
  #leaving: "draining" | "killed" | undefined;
  #idle: { cancel(): void } | undefined;
  #ending: { cancel(): void } | undefined;
  readonly #starting: { cancel(): void };
  readonly #drainGraceMs: number;

  constructor(
    context: ProcessContext,
    { file, args = [] }: IsolationProgram,
    drainGraceMs: number,
    onGone: (wasReady: boolean) => void,
  ) {
    this.#context = context;
    this.#onGone = onGone;
    this.#drainGraceMs = drainGraceMs;
    const execArgv = process.execArgv.filter((argument) => !argument.startsWith("--inspect"));
    this.#child = fork(file, args, { execArgv, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    this.#starting = context.clock.timeout(STARTS_WITHIN_MS, () => {
      context.logger.warn({ pid: this.#child.pid }, "A process of suspects does not start: it is ended");
      this.#child.kill("SIGKILL");
    });
    this.#child.on("message", (message) => this.#onMessage(message));
    // `disconnect` comes after the last message, which may arrive after the process has exited.
    this.#child.once("disconnect", () => this.#onDisconnect());
    this.#child.on("error", (error) => {
      context.logger.warn({ problem: error.message }, "Process of suspects");
      // A process that could not be started emits no `disconnect`.
      if (this.#child.pid === undefined) this.#onDisconnect();
    });
  }

  get size(): number {
    return this.#runs.size;
  }

  get uids(): string[] {
    return [...this.#runs.values()].map(({ address }) => address.uid);
  }

  awaits(uid: string): boolean {
    return [...this.#runs.values()].some(({ address, held }) => address.uid === uid && !held);
  }

  takes(isolation: SuspectIsolation, groupSize: number): boolean {
    if (this.#leaving) return false;
    return isolation === "own_process" ? this.size === 0 : !this.#hasOneRun && this.size < groupSize;
  }

  run({ address, wake, timesTaken }: TakenWake, isolation: SuspectIsolation): Promise<IsolatedEnd> {
    const id = `${address.uid}.${wake}.${timesTaken}`;
    this.#idle?.cancel();
    this.#hasOneRun = isolation === "own_process";
    return new Promise((resolve) => {
      this.#runs.set(id, { address, held: undefined, end: resolve });
      this.#send({ run: { id, address, wake, timesTaken, isolation } });
    });
  }

  drain(): void {
    const { clock, logger } = this.#context;
    this.#leaving ??= "draining";
    this.#idle?.cancel();
    this.#send({ drain: true });
    this.#ending ??= clock.timeout(this.#drainGraceMs + ENDS_WITHIN_MS, () => {
      logger.warn({ pid: this.#child.pid }, "A process of suspects does not end: it is killed");
      this.stop();
    });
  }

  stop(): void {
    this.#leaving = "killed";
    this.#child.kill("SIGKILL");
  }

  /** Sends nothing if the process is gone; its `disconnect` follows. */
  #send(message: ToProcess): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  #onMessage(message: unknown): void {
    const told = FromProcess.safeParse(message).data;
    if (!told) this.#stopUnreadable();
    else if ("ready" in told) this.#started();
    else if ("end" in told) this.#endRun(told.id, told.end);
    else if ("count" in told) countFor(this.#context.observer.metrics, told.count);
    else for (const run of this.#runs.values()) if (run.address.uid === told.uid) run.held = told.held;
  }

  /** Ends the process: the message may have been the end of a run, which would keep its slot for ever. */
  #stopUnreadable(): void {
    this.#context.logger.warn(
      { pid: this.#child.pid },
      "A message of a process of suspects cannot be read: it is killed",
    );
    this.stop();
  }

  #started(): void {
    this.#isReady = true;
    this.#starting.cancel();
  }

  #endRun(id: string, end: IsolatedEnd): void {
    this.#runs.get(id)?.end(end);
    this.#runs.delete(id);
    if (this.size > 0 || this.#leaving) return;
    this.#hasOneRun = false;
    this.#idle = this.#context.clock.timeout(IDLE_MS, () => this.drain());
  }

  /** Ends the runs that the process still held: they crashed with it, unless it was killed. */
  #onDisconnect(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#starting.cancel();
    this.#idle?.cancel();
    this.#ending?.cancel();
    this.#onGone(this.#isReady);
    const wasKilled = this.#leaving === "killed";
    this.#leaving = "killed";
    for (const [id, run] of this.#runs) {
      this.#runs.delete(id);
      // If the run is not released here, its lease expires and a sweeper wakes the agent.
      if (wasKilled) run.end({ status: "lost" });
      else afterCrash(this.#context, run).then(run.end, () => run.end({ status: "lost" }));
    }
  }
}

/** Counts in the worker's metrics what its process of suspects has counted. */
function countFor(metrics: RunMetrics | undefined, count: Count): void {
  const { takenOver, settled, answered, bought, refused, toolCalled } = count;
  if (takenOver) metrics?.takenOver();
  if (settled) metrics?.settled(...settled);
  if (answered) metrics?.answered(...answered);
  if (bought) metrics?.bought(...bought);
  if (refused) metrics?.refused(...refused);
  if (toolCalled) metrics?.toolCalled(...toolCalled);
}

/** Counts a crash and queues the agent again. A run that was not held yet has not crashed. */
async function afterCrash(context: ProcessContext, { address, held }: Suspect): Promise<IsolatedEnd> {
  if (!held) return { status: "returned", reason: "isolation", delayMs: NOT_TAKEN_DELAY_MS };
  context.logger.warn({ uid: address.uid }, "A process of suspects has crashed with this run");
  return releaseAgent(context, address, "crashed", { ...held, delay_ms: 0, crashed: true });
}
