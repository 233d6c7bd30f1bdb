/** Performs `settle`: the reply goes out and the run is over, in one step. */
import { type AgentAddress, wakeOf } from "../shared/protocol/keys.ts";
import { statusOf } from "../shared/protocol/reply.ts";
import type { Lease } from "./lease.ts";
import { NO_ENTRIES } from "./loop/log.ts";
import type { Step } from "./loop/next.ts";
import { tally } from "./loop/tally.ts";
import { reporterOf } from "./progress.ts";
import type { RunContext, RunEnd } from "./run-context.ts";
import type { Session } from "./session.ts";

const LOST =
  "Three workers in a row died in this run before it had come any further, the last one with nothing else to do.";

/** Settles the run; undefined when an unread message keeps it going. */
export async function settleRun(
  context: RunContext,
  session: Session,
  step: Extract<Step, { do: "settle" }>,
): Promise<RunEnd | undefined> {
  const { store, deadlines, wakes } = context;
  const { address, record } = session;
  const status = statusOf(step.reason);
  const body = session.tally();
  const stays = record.spec.keep_alive && (status === "succeeded" || status === "partial");
  const endedReason = stays ? undefined : status === "failed" ? "failed" : "completed";
  if (stays) await deadlines.touch(address, Math.min(store.timing.lookMs, record.spec.idle_ms));
  const answer = await store.settle(address, {
    by: { authority: "worker", ...session.fence, run: record.run },
    target: stays ? "idle" : "ended",
    ...(endedReason && { endedReason }),
    status,
    stopReason: step.reason,
    natural: step.natural,
    body,
    idleMs: record.spec.idle_ms,
  });
  if (answer.status === "more") {
    await session.refreshInbox();
    return undefined;
  }
  // Asked twice because the answer was lost on the way, Redis says how it stands: as this run wanted it, or otherwise.
  const asWanted = answer.status === "same" && answer.ended_reason === (endedReason ?? "");
  if (answer.status !== "settled" && !asWanted) return { status: "lost" };
  session.report.ended(status, step.reason);
  if (answer.agent_status === "queued") {
    await wakes.add(wakeOf(address, record.agent_id, answer.wake));
  }
  return { status: "settled", reply: { status, stop_reason: step.reason, turns: body.turns } };
}

/**
 * Settles a run that died alone, from its record and nothing else: reading its log may be what kills. The reply tells what
 * the run had come to with its last committed step.
 */
export async function settleLost(
  context: RunContext,
  address: AgentAddress,
  { epoch, earlierMs: elapsedMs }: Pick<Lease, "epoch" | "earlierMs">,
): Promise<RunEnd> {
  const reason = "worker_lost";
  const status = statusOf(reason);
  const record = await context.store.record(address);
  if (record?.epoch !== epoch) return { status: "lost" };
  const { run, inbox_read: inboxRead, spec } = record;
  const log = { entries: NO_ENTRIES, run, unread: [], inboxRead, elapsedMs, finish: false };
  const rules = { limits: spec.limits, model: spec.model, idempotentTools: new Set<string>(), canAsk: false };
  const body = { ...(record.progress ?? tally(log, rules)), duration_ms: elapsedMs, error: LOST };
  const answer = await context.store.settle(address, {
    by: { authority: "worker", epoch, known: 0, run },
    target: "ended",
    endedReason: "failed",
    status,
    stopReason: reason,
    body,
  });
  const isOurs = answer.status === "same" && answer.ended_reason === "failed";
  if (answer.status !== "settled" && !isOurs) return { status: "lost" };
  reporterOf(context, address, record).ended(status, reason);
  return { status: "settled", reply: { status, stop_reason: reason, turns: body.turns } };
}
