/** Types of `run/`: {@link RunContext}, what its process gives a run; {@link Equipment} of one run; {@link RunOutcome}, how this process is done with it. */
import type { Clock, CoarseTimers } from "../../shared/clock.ts";
import type { Logger } from "../../shared/logger.ts";
import type { ReplyStatus, StopReason } from "../../shared/protocol/reply.ts";
import type { PriceOverrides } from "../../shared/protocol/usage.ts";
import type { AgentStore } from "../../shared/redis/agent-store.ts";
import type { BudgetBook } from "../../shared/redis/budget.ts";
import type { DeadlineSet } from "../../shared/redis/deadlines.ts";
import type { PublishEvent } from "../../shared/redis/events.ts";
import type { WakeQueue } from "../../shared/redis/wake-queue.ts";
import type { WorkerDirectory } from "../../shared/redis/workers.ts";
import type { AgentHooks, Hook } from "../hooks/hooks.ts";
import type { Model } from "../model/model.ts";
import type { Observer, RunObserver } from "../observe/observer.ts";
import type { RunSlot, RunSlots } from "../run-slots.ts";
import type { CheckOutput } from "../tools/output-check.ts";
import type { OpenRoot } from "../tools/roots.ts";
import type { LeaseGrant, LeaseKeeper } from "./lease.ts";
import type { ProviderLimit } from "./provider-limit.ts";
import type { RunWorkspace } from "./run-workspace.ts";
import type { PreparedSpec, SpecCache } from "./spec-cache.ts";
import type { TextFeeds } from "./text-feed.ts";
import type { Trace } from "./trace.ts";

/** What a worker process lends to each of its runs. */
export interface RunContext {
  workerId: string;
  store: AgentStore;
  deadlines: DeadlineSet;
  wakes: WakeQueue;
  /** Who else is there. */
  workers: WorkerDirectory;
  publish: PublishEvent;
  model: Model;
  /** What all workers know of the model's provider. */
  provider: ProviderLimit;
  budgets: BudgetBook;
  /** What agents of the same specification share. */
  specs: SpecCache;
  checkOutput: CheckOutput;
  /** Names of its custom tools, and of the MCP servers whose tools are known. */
  toolNames: () => readonly string[];
  roots: readonly OpenRoot[];
  hooks: readonly Hook[];
  /** Host directory of all workspaces. */
  workspaceRoot: string;
  prices: PriceOverrides;
  /** Whether every conversation is written down beside its workspace. */
  traced: boolean;
  /** Whether the provider is sent the `traceparent` of each call. */
  sendsTraceparent: boolean;
  /** What operators see of the runs. */
  observer: Observer;
  clock: Clock;
  /** A number in [0, 1). */
  random: () => number;
  logger: Logger;
  /** Aborts when the process wants to stop: after the step at hand, runs are released. */
  draining: AbortSignal;
  /** Aborts when the process cannot wait any longer: the step at hand is cut off. */
  abandoned: AbortSignal;
  /** Leases of the runs going on in this process: hints find them here. */
  leases: LeaseKeeper;
  /** Time limits of tool calls. */
  toolTimers: CoarseTimers;
  /** Text that streams in, on its way to those who watch. */
  texts: TextFeeds;
  /** Who may be active in this process. */
  slots: RunSlots;
  /** Whether suspects run in this process, or in one of their own that it starts; `crowded`: which has no place free. */
  suspects: "here" | "elsewhere" | "crowded";
  /** Told of every run that this process holds, before anything of it is read. */
  onHeld?: (held: LeaseGrant) => void;
}

/**
 * What a run works with: its agent's kind and what is its own. `models` loses those that the provider does not know,
 * `outputFormat` is emptied when it refuses that: for this run, not for the kind.
 */
export interface Equipment extends PreparedSpec {
  workspace: RunWorkspace;
  /** Its slot among the runs of this process. */
  slot: RunSlot;
  trace: Trace | undefined;
  /** What the worker's hooks say of this agent; absent: it has none. */
  hooks?: AgentHooks | undefined;
  observer: RunObserver;
  /** Whether answers are asked for piece by piece also while no parent watches: one that came at once may have been cut off. */
  isStreamed: boolean;
}

/**
 * How this process' part in a run ended. `passed`: there was none, and the wake has done its service; `returned`: there was
 * none, and the wake goes back into the queue, for another process; `isolate`: there was none, and the run needs a process
 * of suspects, or of its own after `isolatedCrashes` in such.
 */
export type RunOutcome =
  | { status: "settled"; reply: { status: ReplyStatus; stop_reason: StopReason; turns: number } }
  | { status: "released"; reason: string }
  | { status: "passed"; because: string }
  | { status: "returned"; because: string; delayMs: number }
  | { status: "isolate"; isolatedCrashes: number }
  | { status: "lost" };
