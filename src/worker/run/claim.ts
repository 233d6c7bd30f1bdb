/** Claims the agent that a wake names: beside other runs, or in isolation if workers crashed with its run. */
import { newRequestKey } from "../../shared/protocol/ids.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import { withDeadlineHint } from "../../shared/redis/deadline-hint.ts";
import type { VerbAnswer } from "../../shared/redis/scripts.ts";
import type { RunSlot } from "../run-slots.ts";
import type { RunContext, RunOutcome } from "./context.ts";
import type { LeaseGrant } from "./lease.ts";

/** Delay before a declined wake is queued again; doubles, because all workers may lack the tools it needs. */
const FIRST_RETURN_DELAY_MS = 200;
/** The delay grows up to this; the line of returned wakes may add to it. */
const LONGEST_ROUND_DELAY_MS = 10_000;
/** Most rounds of a wake; then it is dropped, and a sweeper wakes the agent again or settles it. */
const MOST_ROUNDS = 100;
/** A wake that comes this early, ms, waits in its slot: its delay was set by the clock of one worker and ends by another's. */
const EARLY_MS = 2_000;

/** Other runs in the process of suspects: other suspects (`group`), or none (`own_process`). */
export type SuspectIsolation = "group" | "own_process";

/** A wake as the pool took it. */
export interface TakenWake {
  address: AgentAddress;
  wake: number;
  /** How often its job has been taken, this time included. */
  timesTaken: number;
  /** Set in a process of suspects. */
  isolation?: SuspectIsolation | undefined;
}

/** An agent that this worker has claimed. */
export interface ClaimedRun extends LeaseGrant {
  status: "claimed";
  /** Failures since the run last advanced. */
  attempts: number;
  /** How often in a row the run has broken off before it advanced. */
  breaks: number;
  run: number;
  /**
   * All data that a run needs; for one that crashed in isolation only the record, because it may only be settled. Cleared
   * when the run is opened: then the session has the data.
   */
  claimAnswer: Extract<ClaimAnswer, { status: "claimed" | "crashed" }> | undefined;
}

type ClaimAnswer = VerbAnswer<"claim">;
type Suspect = Extract<ClaimAnswer, { status: "suspect" }>;

/** Outcome of a wake that began no run here. */
type NoRun = Extract<RunOutcome, { status: "passed" | "returned" }>;

/** Options of a claim. */
interface ClaimOptions {
  /** `own_worker`: no other run is active in this process. */
  isolation?: SuspectIsolation | "own_worker" | undefined;
  /** A process of suspects has room for the run. */
  canIsolate: boolean;
  /** The custom tools that this worker offers. */
  tools: readonly string[];
}

/** Claims the agent, or returns why this process does not run it. */
export async function claimRun(
  context: RunContext,
  taken: TakenWake,
  slot: RunSlot,
): Promise<ClaimedRun | RunOutcome> {
  const { leases } = context;
  const { uid } = taken.address;
  leases.beginClaim(uid);
  const claimed = await claimBesideOrIsolated(context, taken, slot).catch((error: unknown) => {
    leases.endClaim(uid);
    throw error;
  });
  if (claimed.status !== "claimed") leases.endClaim(uid);
  return claimed;
}

async function claimBesideOrIsolated(
  context: RunContext,
  taken: TakenWake,
  slot: RunSlot,
): Promise<ClaimedRun | RunOutcome> {
  const { isolation, timesTaken } = taken;
  const offer = { canIsolate: context.suspects === "in_another_process", tools: context.toolNames() };
  const claimed = await claim(context, taken, { isolation, ...offer });
  if (claimed.status !== "suspect") return claimed;
  if (isolation) return { status: "returned", reason: "isolation", delayMs: 0 };
  if (context.suspects !== "in_this_process")
    return { status: "isolate", isolatedCrashes: claimed.isolated_crashes };
  const { uid } = taken.address;
  context.logger.warn(
    { uid, crashes: claimed.crashes },
    "Several workers crashed with this run: it runs alone",
  );
  if (!(await slot.isolate())) return returnWake(context, "isolation", timesTaken);
  const isolated = await claim(context, taken, { isolation: "own_worker", ...offer });
  return isolated.status === "suspect" ? returnWake(context, "isolation", timesTaken) : isolated;
}

/**
 * Returns the wake to the queue: undelayed, until it has been taken as often as there are live workers, then after a delay.
 * The idle worker that has waited longest takes it, so it visits all of them within a round. A delayed one goes to the
 * worker that happens to check when it is due, often the same one.
 */
export async function returnWake(
  { random, workers }: Pick<RunContext, "random" | "workers">,
  reason: string,
  timesTaken: number,
): Promise<NoRun> {
  const alive = Math.max(1, await workers.count());
  const rounds = Math.floor(timesTaken / alive);
  if (rounds > MOST_ROUNDS) return dropWake(reason);
  if (timesTaken % alive !== 0) return { status: "returned", reason, delayMs: 0 };
  const longestMs = Math.min(FIRST_RETURN_DELAY_MS * 2 ** (rounds - 1), LONGEST_ROUND_DELAY_MS);
  return { status: "returned", reason, delayMs: longestMs * (0.5 + random() / 2), workers: alive };
}

async function claim(
  context: RunContext,
  taken: TakenWake,
  options: ClaimOptions,
): Promise<ClaimedRun | RunOutcome | Suspect> {
  const { address, wake, timesTaken } = taken;
  const { answer, claimId, claimedAtMs } = await claimInTime(context, address, options);
  switch (answer.status) {
    case "claimed":
    case "crashed": {
      const { epoch, running_ms: earlierMs, attempts, breaks, run } = answer;
      if ("lost_worker" in answer && answer.lost_worker !== undefined) tellTakeover(context, address, answer);
      const grant = { address, epoch, claimId, claimedAtMs, earlierMs };
      return { status: "claimed", ...grant, attempts, breaks, run, claimAnswer: answer };
    }
    case "suspect":
      return isReplaced(answer, wake) ? dropWake("replaced") : answer;
    case "newer":
      return isReplaced(answer, wake) ? dropWake("replaced") : returnWake(context, "newer", timesTaken);
    case "missing_tools": {
      if (isReplaced(answer, wake)) return dropWake("replaced");
      context.logger.debug({ uid: address.uid, tools: answer.tools }, "Left to a worker that has its tools");
      return returnWake(context, "tools", timesTaken);
    }
    case "held": {
      // This process stops and did not wait to the end: the next worker waits for the rest.
      const isCutShort = context.draining.aborted && answer.wait_ms <= EARLY_MS;
      if (isCutShort) return { status: "returned", reason: "drain", delayMs: 0 };
      return comesInTime(context, answer, wake)
        ? { status: "returned", reason: "early", delayMs: answer.wait_ms }
        : dropWake("held");
    }
    default:
      return dropWake(answer.status);
  }
}

/** Reports that the run's last worker is gone: it was silent until its lease was over. */
function tellTakeover(
  { logger, observer }: RunContext,
  { tenant, parentId: parent_id, uid }: AgentAddress,
  { run, lost_worker }: Extract<ClaimAnswer, { status: "claimed" }>,
): void {
  observer.metrics?.takenOver();
  logger.warn(
    { tenant, parent_id, uid, run, lost_worker },
    "A run is taken over: its worker is gone, or was silent for too long",
  );
}

/** Claims the agent. If it is free soon, waits and claims again: a sweeper would add the next wake much later. */
async function claimInTime(
  context: RunContext,
  address: AgentAddress,
  { isolation, canIsolate, tools }: ClaimOptions,
) {
  const { store, clock, deadlines, logger, workerId, draining } = context;
  const untilMs = clock.monotonicMs() + EARLY_MS;
  for (;;) {
    let claimedAtMs = clock.monotonicMs();
    const claimId = newRequestKey();
    const claimArguments = { worker: workerId, isolation, can_isolate: canIsolate, offered_tools: tools };
    // The hint arrives before the claim sets the deadline to the end of its lease.
    const answer = await withDeadlineHint(
      () => deadlines.hint(address, store.timing.leaseMs),
      () => {
        claimedAtMs = clock.monotonicMs();
        return store.claim(address, { claim_id: claimId, ...claimArguments });
      },
      { logger, uid: address.uid, isOrdered: deadlines.isOrdered },
    );
    const waitMs = answer.status === "held" ? answer.wait_ms : Number.POSITIVE_INFINITY;
    if (draining.aborted || clock.monotonicMs() + waitMs > untilMs) return { answer, claimId, claimedAtMs };
    await clock.sleep(waitMs, draining);
  }
}

/** Returns true if the agent has a newer wake: then this wake is dropped, whatever it would have to wait for. */
function isReplaced(answer: { wake: number }, wake: number): boolean {
  return answer.wake > wake;
}

/**
 * Returns true if the agent's current wake is worth delaying: returned with a delay, it comes no later than a sweeper would
 * replace a dropped one. The delay counts by this worker's clock, so a clock ahead of Redis' makes the wake late by as much.
 */
function comesInTime(
  { clock, store }: RunContext,
  { wait_ms, due_at = 0, wake: own }: Extract<ClaimAnswer, { status: "held" }>,
  wake: number,
): boolean {
  return own === wake && clock.now() + wait_ms <= due_at + store.timing.checkMs;
}

function dropWake(reason: string): NoRun {
  return { status: "passed", reason };
}
