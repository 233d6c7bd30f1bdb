/**
 * The life of this process: signals, and what happens when something falls through every net.
 *
 * Owns: the only handlers on `process`. Its neighbours see one AbortSignal.
 *
 * 1. The first SIGINT, SIGTERM or SIGHUP aborts that signal: the work stops gracefully and its exit code counts.
 * 2. The second one ends the process at once with {@link EXIT.interrupted}.
 *
 * Work that stops in two steps sees a second abort signal on the second one, and on a first one that is not SIGINT; the
 * third ends the process. The handlers are gone when the work is over, and the process once its output is handed on,
 * whatever still holds it.
 */
import { EXIT } from "./command.ts";

const STOPPING: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];

/** What a service tells its surroundings. */
export interface ServiceHooks {
  /** The first signal has come: the work is being stopped. */
  onStopping(signal: NodeJS.Signals): void;
  /** An uncaught error; the process ends with {@link EXIT.failed} afterwards. */
  onUncaught(error: unknown): void;
}

/** Runs `work` until it is over or told to stop; the process ends with its exit code. */
export async function runService(
  work: (signal: AbortSignal, stopInTwoSteps: () => AbortSignal) => Promise<number>,
  hooks: ServiceHooks,
): Promise<void> {
  const stopping = new AbortController();
  const second = new AbortController();
  let hasTwoSteps = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (second.signal.aborted) process.exit(EXIT.interrupted);
    const isFirst = !stopping.signal.aborted;
    if (isFirst && !hasTwoSteps) hooks.onStopping(signal);
    stopping.abort();
    if (!isFirst || !hasTwoSteps || signal !== "SIGINT") second.abort();
  };
  const stopInTwoSteps = () => {
    hasTwoSteps = true;
    return second.signal;
  };
  const onUncaught = (error: unknown) => {
    hooks.onUncaught(error);
    process.exit(EXIT.failed);
  };
  for (const name of STOPPING) process.on(name, onSignal);
  process.on("uncaughtException", onUncaught);
  process.on("unhandledRejection", onUncaught);
  try {
    process.exitCode = await work(stopping.signal, stopInTwoSteps);
  } finally {
    for (const name of STOPPING) process.off(name, onSignal);
    process.off("uncaughtException", onUncaught);
    process.off("unhandledRejection", onUncaught);
  }
  await Promise.all([process.stdout, process.stderr].map(whenFlushed));
  process.exit();
}

/** Resolves when a stream has handed everything on, or has no reader. */
function whenFlushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}
