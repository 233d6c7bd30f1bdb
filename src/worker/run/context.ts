/** Types of `run/`: {@link RunContext}, means of a process; {@link Equipment} of a run; {@link RunOutcome}, its end here. */
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

/** Means that a worker process shares among its runs. */
export interface RunContext {
  workerId: string;
  store: AgentStore;
  deadlines: DeadlineSet;
  wakes: WakeQueue;
  workers: WorkerDirectory;
  publish: PublishEvent;
  model: Model;
  /** The shared limit of the model's provider. */
  provider: ProviderLimit;
  budgets: BudgetBook;
  /** Parts that agents of the same specification share. */
  specs: SpecCache;
  checkOutput: CheckOutput;
  /** Names of its custom tools, and of the MCP servers whose tools are known. */
  toolNames: () => readonly string[];
  roots: readonly OpenRoot[];
  hooks: readonly Hook[];
  /** Host directory of all workspaces. */
  workspaceRoot: string;
  /** Prefix of the installation, for the stamps of workspaces. */
  prefix: string;
  prices: PriceOverrides;
  /** True if every conversation is written to a file beside its workspace. */
  traced: boolean;
  /** True if the provider gets the `traceparent` of each call. */
  sendsTraceparent: boolean;
  /** Reports the runs to operators. */
  observer: Observer;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  logger: Logger;
  /** Aborts when the process wants to stop: runs are released after their current step. */
  draining: AbortSignal;
  /** Aborts when the process cannot wait any longer: current steps are cut off. */
  abandoned: AbortSignal;
  /** Leases of the runs in this process; hints find the runs here. */
  leases: LeaseKeeper;
  /** Time limits of tool calls. */
  toolTimers: CoarseTimers;
  /** Text of running model calls, to be published to subscribers. */
  texts: TextFeeds;
  /** Admits runs to this process. */
  slots: RunSlots;
  /** Place of a suspect that this process takes: alone in it, or in one that it starts, of which none may have room now. */
  suspects: "in_this_process" | "in_another_process" | "no_room";
  /** Called for every run that this process holds, before any of its data is read. */
  onHeld?: (held: LeaseGrant) => void;
}

/** The part of a run's context that does not depend on the pool which runs it. */
export type SharedContext = Omit<RunContext, "slots" | "suspects">;

/**
 * Equipment of a run: the parts of its agent's specification and its own. `models` loses those that the provider does not
 * know, `outputFormat` becomes "" if the provider refuses it: for this run, not for the specification.
 */
export interface Equipment extends PreparedSpec {
  workspace: RunWorkspace;
  /** Its slot among the runs of this process. */
  slot: RunSlot;
  trace: Trace | undefined;
  /** The worker's hooks for this agent; absent: none. */
  hooks?: AgentHooks | undefined;
  observer: RunObserver;
  /** True if answers are streamed even if no parent watches: a connection may have been cut off for its silence. */
  isStreamed: boolean;
}

/**
 * Outcome of a wake in this process.
 * - `settled`, `released`: the run was claimed here, and ended or was handed back.
 * - `passed`: no run began here, and the wake is done.
 * - `returned`: no run began here, and the wake goes back into the queue for another process. `workers`: the number of live
 *   workers, set if each of them has returned the wake: then it waits in the line of returned wakes (`wake-line.ts`).
 * - `isolate`: no run began here, because the run needs a process of suspects; a process of its own if it has crashed in one
 *   before (`isolatedCrashes` above 0).
 * - `lost`: this process neither settled nor released the run: another worker holds it, or a sweeper wakes the
 *   agent.
 */
export type RunOutcome =
  | { status: "settled"; reply: { status: ReplyStatus; stop_reason: StopReason; turns: number } }
  | { status: "released"; reason: string }
  | { status: "passed"; reason: string }
  | { status: "returned"; reason: string; delayMs: number; workers?: number }
  | { status: "isolate"; isolatedCrashes: number }
  | { status: "lost" };
