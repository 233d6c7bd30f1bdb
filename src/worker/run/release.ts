/** Hands a run back: its agent is queued again, for any worker, not before a moment in time. */
import type { AgentRecord, ProviderWait } from "../../shared/protocol/agent.ts";
import { wakeOf } from "../../shared/protocol/keys.ts";
import type { RunContext, RunEnd } from "./context.ts";
import type { Lease } from "./lease.ts";

/** A run that this process holds. */
export interface HeldRun {
  lease: Lease;
  /** Undefined where it could not be read. */
  record?: AgentRecord | undefined;
  /** Failures since the run last advanced; the next holder goes on counting. */
  attempts: number;
  /** How often in a row the run has broken off before it advanced. */
  breaks: number;
}

/** Why and for how long; `providerWait`: it waits for its provider. */
export interface ReleaseWish {
  reason: string;
  delayMs: number;
  runningMs?: number | undefined;
  providerWait?: ProviderWait | undefined;
}

/** Releases the run in one flight: the deadline hint, then the verb; then the wake. */
export async function releaseRun(
  context: RunContext,
  { lease, record, attempts, breaks }: HeldRun,
  { reason, delayMs, runningMs = lease.runningMs(), providerWait }: ReleaseWish,
): Promise<RunEnd> {
  const { store, deadlines, wakes } = context;
  const { address, epoch } = lease;
  const event = { type: "released", turn: 0, reason } as const;
  const hinted = deadlines.touch(address, delayMs + store.timing.lookMs);
  const releasing = store.release(address, {
    epoch,
    delay_ms: Math.ceil(delayMs),
    running_ms: runningMs,
    attempts,
    breaks,
    provider_wait: providerWait && JSON.stringify(providerWait),
    events: JSON.stringify(event),
  });
  const [, answer] = await Promise.all([hinted, releasing]);
  if (answer.status === "stale") return { status: "lost" };
  await wakes.add(wakeOf(address, record?.agent_id ?? address.uid, answer.wake), delayMs);
  return { status: "released", reason };
}
