/** Hands a run back: its agent is queued again, for any worker, not before a moment in time. */
import type { AgentRecord } from "../shared/protocol/agent.ts";
import { type AgentAddress, wakeOf } from "../shared/protocol/keys.ts";
import type { Lease } from "./lease.ts";
import { reporterOf } from "./progress.ts";
import type { RunContext, RunEnd } from "./run-context.ts";

/** A run this process holds. */
export interface HeldRun {
  address: AgentAddress;
  /** Undefined where it could not be read. */
  record: AgentRecord | undefined;
  lease: Lease;
  /** Failures since the last committed step; the next holder goes on counting. */
  retries: number;
}

/** Releases the run: first the deadline hint, then the verb, then the wake. */
export async function releaseRun(
  context: RunContext,
  { address, record, lease, retries }: HeldRun,
  { reason, delayMs, runningMs = lease.runningMs() }: { reason: string; delayMs: number; runningMs?: number },
): Promise<RunEnd> {
  const { store, deadlines, wakes } = context;
  await deadlines.touch(address, delayMs + store.timing.lookMs);
  const answer = await store.release(address, {
    epoch: lease.epoch,
    delayMs,
    runningMs,
    retries,
  });
  if (answer.status === "stale") return { status: "lost" };
  if (record) reporterOf(context, address, record).released(reason);
  await wakes.add(wakeOf(address, record?.agent_id ?? address.uid, answer.wake), delayMs);
  return { status: "released", reason };
}
