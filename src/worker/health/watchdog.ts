/**
 * Ends the process if its event loop is blocked for the length of a lease: by a custom tool in an endless loop, or a regular
 * expression that never returns. Code in the loop could not: no timer fires, no lease is renewed, and SIGTERM is not
 * handled. Other workers claim the runs of the process; this counts as a crash of runs that had committed nothing.
 * Owns one thread and the memory that it shares with the loop: the loop beats, the thread listens.
 *
 * 1. The process is ended after `silenceMs` of silence, at most a check later, and never while a debugger is attached.
 * 2. A process that was stopped, or whose machine slept, is not silent.
 *
 * If the machine cannot start a thread, the worker runs without a watchdog and logs a warning.
 */
import { url as debuggerUrl } from "node:inspector";
import { Worker } from "node:worker_threads";
import type { Clock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";

/** Checks of the thread within the allowed silence; the loop beats twice as often. */
const CHECKS = 20;
const [BEATS, DEBUGGED, STOPPED] = [0, 1, 2] as const;
const SHARED_BYTES = 3 * Int32Array.BYTES_PER_ELEMENT;
const MAX_THREAD_HEAP_MB = 8;

/** See the module's header. */
export interface Watchdog {
  /** Idempotent. */
  start(): void;
  /** Resolves when the thread has ended. Idempotent. */
  stop(): Promise<void>;
}

/** Options of a watchdog. */
export interface WatchdogOptions {
  clock: Clock;
  logger: Logger;
  /** The worker's id, for the line on stderr. */
  workerId: string;
  /** Longest time for which the event loop may be blocked, ms. */
  silenceMs: number;
}

/** Creates a watchdog, not started. */
export function createWatchdog({ clock, logger, workerId, silenceMs }: WatchdogOptions): Watchdog {
  const state = new Int32Array(new SharedArrayBuffer(SHARED_BYTES));
  const checkMs = Math.ceil(silenceMs / CHECKS);
  let thread: Worker | undefined;
  let timer: { cancel(): void } | undefined;
  const beat = () => {
    Atomics.add(state, BEATS, 1);
    Atomics.store(state, DEBUGGED, debuggerUrl() === undefined ? 0 : 1);
    timer = clock.timeout(checkMs / 2, beat);
  };
  return {
    start() {
      if (thread) return;
      const sentence = `subagent-queue: worker ${workerId} (pid ${process.pid}) is ended: its event loop stood still for ${silenceMs} ms, most likely in a tool that does not return. Its runs go on in other workers.`;
      Atomics.store(state, STOPPED, 0);
      beat();
      try {
        thread = new Worker(new URL("./watchdog-thread.js", import.meta.url), {
          env: {},
          execArgv: [],
          workerData: { shared: state.buffer, checkMs, silentChecks: CHECKS, sentence },
          resourceLimits: { maxOldGenerationSizeMb: MAX_THREAD_HEAP_MB },
        });
      } catch (error) {
        return logger.warn({ problem: messageOf(error) }, "The worker has no watchdog");
      }
      thread.on("error", (error: unknown) =>
        logger.warn({ problem: messageOf(error) }, "The worker has no watchdog any more"),
      );
      thread.unref();
    },
    async stop() {
      timer?.cancel();
      Atomics.store(state, STOPPED, 1);
      Atomics.notify(state, STOPPED);
      await thread?.terminate();
      thread = undefined;
    },
  };
}
