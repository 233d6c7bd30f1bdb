/** Takes the agent that a wake names: beside others, or alone where two workers did not survive its run. */
import { newRequestKey } from "../shared/protocol/ids.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { isForAnother } from "./capable.ts";
import type { Place } from "./quarantine.ts";
import type { RunContext, RunEnd } from "./run-context.ts";

/** A wake that no live worker could follow rests before it goes round again, longer each time: all may be like this one. */
const FIRST_REST_MS = 200;
const LONGEST_REST_MS = 10_000;
/** Then it is dropped; a sweeper that can do more for the agent wakes it again. */
const MOST_ROUNDS = 100;
/** A wake may be so much too early: a delay ends by the clock of whoever takes it, and began by another's. */
const EARLY_MS = 2_000;

/** A wake as the pool took it. */
export interface TakenWake {
  address: AgentAddress;
  wake: number;
  /** How often its job has been taken, this time included. */
  taken: number;
}

/** An agent that is ours. */
export interface ClaimedRun {
  status: "claimed";
  epoch: number;
  /** Monotonic ms at which the claim was sent. */
  claimedAtMs: number;
  /** Running time of the run before this claim, ms. */
  earlierMs: number;
  /** Failures since its last committed step. */
  retries: number;
  /** It died alone: it may only be settled, and nothing of it may be looked at but its record. */
  isLost: boolean;
}

/** Claims the agent, or says why this process does not run it. */
export async function claimRun(
  context: RunContext,
  taken: TakenWake,
  place: Place,
): Promise<ClaimedRun | RunEnd> {
  if (await isForAnother(context, taken.address)) return returned(context, "tools", taken.taken);
  const beside = await claim(context, taken, false);
  if (beside.status !== "alone") return beside;
  const { logger } = context;
  const { uid } = taken.address;
  logger.warn(
    { uid, deaths: beside.deaths },
    "Several workers died of this run, or beside it: it runs alone",
  );
  if (!(await place.isolate())) return returned(context, "quarantine", taken.taken);
  const alone = await claim(context, taken, true);
  // A run that is alone already is not asked to be; the type does not know.
  return alone.status === "alone" ? returned(context, "quarantine", taken.taken) : alone;
}

/**
 * The wake goes back into the queue: undelayed, until it has been taken as often as there are live workers, then after a
 * rest. Of idle workers the one that has waited longest takes it, so that it visits them all within a round; a delayed one
 * would be taken by whoever happens to look when it is due, the same worker time and again.
 */
export async function returned(
  { random, workers }: Pick<RunContext, "random" | "workers">,
  because: string,
  taken: number,
): Promise<RunEnd> {
  const alive = Math.max(1, (await workers.list()).length);
  const rounds = Math.floor(taken / alive);
  if (rounds > MOST_ROUNDS) return passed(because);
  if (taken % alive !== 0) return { status: "returned", because, delayMs: 0 };
  const longestMs = Math.min(FIRST_REST_MS * 2 ** (rounds - 1), LONGEST_REST_MS);
  return { status: "returned", because, delayMs: longestMs * (0.5 + random() / 2) };
}

async function claim(
  context: RunContext,
  { address, wake, taken }: TakenWake,
  alone: boolean,
): Promise<ClaimedRun | RunEnd | { status: "alone"; deaths: string }> {
  const { store, deadlines } = context;
  // A claim makes the deadline the end of its lease: the hint must not be later, should this process die.
  await deadlines.touch(address, store.timing.leaseMs);
  const { answer, claimedAtMs } = await claimInTime(context, address, alone);
  switch (answer.status) {
    case "claimed":
    case "lost":
      return {
        status: "claimed",
        epoch: Number(answer.epoch),
        claimedAtMs,
        earlierMs: Number(answer.running_ms),
        retries: Number(answer.retries),
        isLost: answer.status === "lost",
      };
    case "alone":
      return isReplaced(answer, wake) ? passed("replaced") : answer;
    case "newer":
      return isReplaced(answer, wake) ? passed("replaced") : returned(context, "newer", taken);
    default:
      return passed(answer.status);
  }
}

/** Puts the claim, and once more when the agent may be claimed in a moment: the wake would be spent, and the next is a sweeper's. */
async function claimInTime(
  { store, clock, workerId, draining }: RunContext,
  address: AgentAddress,
  alone: boolean,
) {
  const untilMs = clock.monotonicMs() + EARLY_MS;
  for (;;) {
    const claimedAtMs = clock.monotonicMs();
    const answer = await store.claim(address, newRequestKey(), workerId, alone);
    const waitMs = answer.status === "held" ? Number(answer.wait_ms) : Number.POSITIVE_INFINITY;
    if (draining.aborted || clock.monotonicMs() + waitMs > untilMs) return { answer, claimedAtMs };
    await clock.sleep(waitMs, draining);
  }
}

/** A newer wake of the agent is out: this one need not wait for anything. */
function isReplaced(answer: { wake: string }, wake: number): boolean {
  return Number(answer.wake) > wake;
}

function passed(because: string): RunEnd {
  return { status: "passed", because };
}
