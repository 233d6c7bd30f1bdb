/**
 * The lifecycle of this process: signals and uncaught errors.
 *
 * Owns the only handlers on `process`. Other modules see one AbortSignal.
 *
 * 1. The first SIGINT, SIGTERM or SIGHUP aborts that signal: the work stops gracefully and its exit code counts.
 * 2. The second one ends the process at once with {@link EXIT.interrupted}.
 * 3. A signal that comes again within {@link SAME_SIGNAL_MS} is the same one: `timeout` sends each to its command and to its
 *    process group.
 *
 * Work that stops in two steps gets a second abort signal: the second signal aborts it, or a first one that is not SIGINT;
 * the third ends the process. When the work ends, the handlers are removed. Then the process flushes its output and exits,
 * even if open handles remain.
 */
import { EXIT } from "./command.ts";

const STOPPING: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];
const SAME_SIGNAL_MS = 100;

/** Callbacks and clock of {@link runService}. */
export interface ServiceHooks {
  monotonicMs(): number;
  /** Called on the first signal, when the work begins to stop. */
  onStopping(signal: NodeJS.Signals): void;
  /** Called for an uncaught error; the process then exits with {@link EXIT.failed}. */
  onUncaught(error: unknown): void;
}

/** Runs `work` until it resolves, then exits with its exit code; a signal aborts `work`. */
export async function runService(
  work: (signal: AbortSignal, stopInTwoSteps: () => AbortSignal) => Promise<number>,
  hooks: ServiceHooks,
): Promise<void> {
  const stopping = new AbortController();
  const second = new AbortController();
  let hasTwoSteps = false;
  let last: { signal: NodeJS.Signals; atMs: number } | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    const atMs = hooks.monotonicMs();
    if (last?.signal === signal && atMs - last.atMs < SAME_SIGNAL_MS) return;
    last = { signal, atMs };
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

/** Resolves when the stream has written its buffer, or its reader is gone. */
function whenFlushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}
