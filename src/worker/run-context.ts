/** What every part of a run is handed by its process, and how a process' part in a run can end. Types only. */
import type { Clock } from "../shared/clock.ts";
import type { Logger } from "../shared/logger.ts";
import type { PriceOverrides } from "../shared/protocol/pricing.ts";
import type { ReplyStatus, StopReason } from "../shared/protocol/reply.ts";
import type { AgentStore } from "../shared/redis/agent-store.ts";
import type { DeadlineSet } from "../shared/redis/deadline-set.ts";
import type { PublishEvent } from "../shared/redis/event-channel.ts";
import type { ProviderGate } from "../shared/redis/provider-gate.ts";
import type { WakeQueue } from "../shared/redis/wake-queue.ts";
import type { WorkerDirectory } from "../shared/redis/worker-directory.ts";
import type { Lease } from "./lease.ts";
import type { Model } from "./model/model.ts";
import type { Quarantine } from "./quarantine.ts";
import type { Toolbox } from "./tools/registry.ts";
import type { OpenRoot } from "./tools/roots.ts";

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
  gate: ProviderGate;
  toolbox: Toolbox;
  roots: readonly OpenRoot[];
  /** Host directory of all workspaces. */
  workspaceRoot: string;
  prices: PriceOverrides;
  /** Whether every conversation is written down beside its workspace. */
  traced: boolean;
  clock: Clock;
  /** A number in [0, 1). */
  random: () => number;
  logger: Logger;
  /** Aborts when the process wants to stop: after the step at hand, runs are released. */
  draining: AbortSignal;
  /** Aborts when the process cannot wait any longer: the step at hand is cut off. */
  abandoned: AbortSignal;
  /** Leases of the runs going on in this process, by uid: hints find them here. */
  leases: Map<string, Lease>;
  /** Who may be active in this process. */
  quarantine: Quarantine;
}

/**
 * How this process' part in a run ended. `passed`: there was none, and the wake has done its service; `returned`: there was
 * none, and the wake goes back into the queue, for another process.
 */
export type RunEnd =
  | { status: "settled"; reply: { status: ReplyStatus; stop_reason: StopReason; turns: number } }
  | { status: "released"; reason: string }
  | { status: "passed"; because: string }
  | { status: "returned"; because: string; delayMs: number }
  | { status: "lost" };
