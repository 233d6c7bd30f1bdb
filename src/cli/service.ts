/**
 * The life of this process: signals, and what happens when something falls through every net.
 *
 * Owns: the only handlers on `process`. Its neighbours see one AbortSignal.
 *
 * 1. The first SIGINT, SIGTERM or SIGHUP aborts that signal: whoever works stops gracefully and its exit code counts.
 * 2. The second one ends the process at once with {@link EXIT.interrupted}.
 * 3. The handlers are gone when the work is over, and the process once its output is handed on,
 *    whatever still holds it.
 */
import { EXIT } from "./exit-code.ts";

const STOPPING: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];

/** What a service tells its surroundings. */
export interface ServiceHooks {
  /** The first signal has come: the work is being stopped. */
  onStopping(signal: NodeJS.Signals): void;
  /** An error that nobody caught; the process ends with {@link EXIT.failed} afterwards. */
  onUncaught(error: unknown): void;
}

/** Runs `work` until it is over or told to stop; the process ends with its exit code. */
export async function runService(
  work: (signal: AbortSignal) => Promise<number>,
  hooks: ServiceHooks,
): Promise<void> {
  const stopping = new AbortController();
  const onSignal = (signal: NodeJS.Signals) => {
    if (stopping.signal.aborted) process.exit(EXIT.interrupted);
    hooks.onStopping(signal);
    stopping.abort();
  };
  const onUncaught = (error: unknown) => {
    hooks.onUncaught(error);
    process.exit(EXIT.failed);
  };
  for (const name of STOPPING) process.on(name, onSignal);
  process.on("uncaughtException", onUncaught);
  process.on("unhandledRejection", onUncaught);
  try {
    process.exitCode = await work(stopping.signal);
  } finally {
    for (const name of STOPPING) process.off(name, onSignal);
    process.off("uncaughtException", onUncaught);
    process.off("unhandledRejection", onUncaught);
  }
  await Promise.all([process.stdout, process.stderr].map(whenFlushed));
  process.exit();
}

/** Resolves when a stream has handed everything on, or has nobody to hand it to. */
function whenFlushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}

/** Resolves when `signal` aborts. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
