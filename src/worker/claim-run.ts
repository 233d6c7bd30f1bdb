/** Takes the agent that a wake names: beside others, or alone where two workers did not survive its run. */
import { newRequestKey } from "../shared/protocol/ids.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { isForAnother } from "./capable.ts";
import type { Place } from "./quarantine.ts";
import type { RunContext, RunEnd } from "./run-context.ts";

/** A wake whose agent this process may not run goes to another soon, then less and less often: all may be like this one. */
const FIRST_RETURN_MS = 200;
const LONGEST_RETURN_MS = 10_000;
/** Then it is dropped; a sweeper that can do more for the agent wakes it again. */
const MOST_RETURNS = 100;

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

/** The wake goes back into the queue; undelayed the first time, or with a delay that grows with `taken`. */
export function returned({ random }: Pick<RunContext, "random">, because: string, taken: number): RunEnd {
  if (taken > MOST_RETURNS) return { status: "passed", because };
  const longestMs = Math.min(FIRST_RETURN_MS * 2 ** (taken - 1), LONGEST_RETURN_MS);
  return { status: "returned", because, delayMs: longestMs * (0.5 + random() / 2) };
}

async function claim(
  context: RunContext,
  { address, wake, taken }: TakenWake,
  alone: boolean,
): Promise<ClaimedRun | RunEnd | { status: "alone"; deaths: string }> {
  const { store, deadlines, clock, workerId } = context;
  // A claim makes the deadline the end of its lease: the hint must not be later, should this process die.
  await deadlines.touch(address, store.timing.leaseMs);
  const claimedAtMs = clock.monotonicMs();
  const answer = await store.claim(address, newRequestKey(), workerId, alone);
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

/** A newer wake of the agent is out: this one need not wait for anything. */
function isReplaced(answer: { wake: string }, wake: number): boolean {
  return Number(answer.wake) > wake;
}

function passed(because: string): RunEnd {
  return { status: "passed", because };
}
