/**
 * The inside of a process of suspects: carries out the runs that its worker gives it, and nothing else. It takes no wakes,
 * sweeps nothing, and is in no directory.
 *
 * 1. The worker knows with what a run is held before anything of the run is read.
 * 2. A run that has advanced is no suspect any more: it is handed back between two steps.
 * 3. When the worker is gone, every run is handed back.
 */
import { messageOf } from "../shared/errors.ts";
import type { Place, Quarantine } from "./isolation.ts";
import { type FromProcess, ToProcess } from "./isolation-messages.ts";
import type { TakenWake } from "./run/claim.ts";
import type { RunContext, RunEnd } from "./run/context.ts";
import { run } from "./run/run.ts";

/** See the module's header. */
export interface IsolatedRuns {
  /** Hears the worker from now on, and when it is gone. */
  listen(): void;
  /** Says that it takes runs. */
  start(): void;
  /** Resolves when the worker is gone, or this process was told to stop, and no run is left. */
  readonly over: Promise<void>;
}

/** The runs of a process of suspects. */
export function createIsolatedRuns(
  lent: Omit<RunContext, "quarantine" | "suspects" | "onHeld">,
  draining: AbortController,
): IsolatedRuns {
  const context: RunContext = {
    ...lent,
    quarantine: UNTIL_PROVED,
    suspects: "here",
    onHeld: ({ address, epoch, earlierMs, attempts, breaks }) =>
      tell({ uid: address.uid, held: { epoch, running_ms: earlierMs, attempts, breaks } }),
  };
  const runs = new Set<Promise<void>>();
  const carryOut = async ({ id, ...taken }: TakenWake & { id: string }): Promise<void> => {
    const end = await run(context, taken).catch((error: unknown): RunEnd => {
      lent.logger.error({ problem: messageOf(error), uid: taken.address.uid }, "Run left behind");
      return { status: "lost" };
    });
    if (end.status !== "isolate") tell({ id, end });
  };
  const over = new Promise<void>((resolve) => {
    const settled = async () => {
      while (runs.size > 0) await Promise.allSettled([...runs]);
      resolve();
    };
    draining.signal.addEventListener("abort", () => void settled(), { once: true });
  });
  const take = (message: unknown) => {
    const told = ToProcess.safeParse(message).data;
    if (!told) return;
    if ("drain" in told) return draining.abort();
    const going = carryOut(told.run).finally(() => runs.delete(going));
    runs.add(going);
  };
  return {
    over,
    listen() {
      process.on("message", take);
      process.once("disconnect", () => draining.abort());
      // It may have gone while this process started.
      if (!process.connected) draining.abort();
    },
    start: () => tell({ ready: true }),
  };
}

/** A worker that is gone is told nothing. */
function tell(message: FromProcess): void {
  if (process.connected) process.send?.(message);
}

/** Every place is a suspect's; one that is proved is told to leave. */
const UNTIL_PROVED: Quarantine = {
  admit(): Place {
    const notice = new AbortController();
    return {
      notice: notice.signal,
      isolate: async () => true,
      prove: () => notice.abort(),
      leave() {},
    };
  },
};
