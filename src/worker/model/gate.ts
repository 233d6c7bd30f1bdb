/**
 * The provider's gate as a run meets it: asks before a call, waits or hands the run back, keeps the place while the call
 * goes on, and says what it met. What all workers know of the provider is owned by `shared/redis/provider-gate.ts`.
 *
 * 1. Waiting here is no attempt, no turn and no running time; a long wait does not hold the worker's slot.
 * 2. A gate that cannot be asked is open: it spares the provider, it does not guard the run. The lease does.
 * 3. The run that finds a credential refused fails; whoever is refused for it afterwards asks at the gate again.
 * 4. A place is kept no longer than the run's lease lives, however the call ends.
 */
import { messageOf } from "../../shared/errors.ts";
import type { Admission, CallOutcome, GateAnswer, Leave } from "../../shared/redis/provider-gate.ts";
import { releaseRun } from "../release-run.ts";
import type { RunContext, RunEnd } from "../run-context.ts";
import type { Session } from "../session.ts";
import type { FailureKind, Model, ModelFailure, ModelOutcome } from "./model.ts";
import { LONGEST_HELD_WAIT_MS } from "./retry.ts";

/** What the gate knows of a failure: it `known` before or does now, or the failure concerns this run alone. */
export type Verdict = "shared" | "own";

/** `shut`: no call now; `end` is undefined where the run only has to ask again. */
export type Passage =
  | { status: "open"; leave(outcome: ModelOutcome): Promise<Verdict> }
  | { status: "shut"; end: RunEnd | undefined };

/** A run of a paused installation is taken again no sooner; the paused queue keeps it for as long as it takes. */
const PAUSED_ASK_MS = 1_000;

/** Failures of the credential: every call with it meets them until somebody does something about it. */
const DENIALS: ReadonlySet<FailureKind> = new Set(["authentication", "permission", "billing"]);
const LIMITS: ReadonlySet<FailureKind> = new Set(["rate_limited", "overloaded"]);

/** Asks for a call of the run; waits where that is short, hands the run back where it is not. */
export async function passGate(context: RunContext, session: Session): Promise<Passage> {
  const { gate, model, clock } = context;
  const { lease, address, record } = session;
  const name = gateNameOf(model, record.spec.model);
  const answer = await gate.enter(name, address.uid).catch((error) => unasked(context, error));
  if (!lease.isLive()) return { status: "shut", end: { status: "lost" } };
  switch (answer.status) {
    case "open":
      return throughGate(context, session, name, answer);
    case "paused":
      return handBack(context, session, "paused", PAUSED_ASK_MS);
    case "wait":
      if (answer.waitMs > LONGEST_HELD_WAIT_MS)
        return handBack(context, session, answer.reason, answer.waitMs);
      await lease.rest(clock.sleep(answer.waitMs, lease.signal));
      return { status: "shut", end: undefined };
  }
}

/** The name of the gate before a model: one for each provider, credential and model. */
export function gateNameOf(model: Pick<Model, "gateName">, modelId: string): string {
  return model.gateName?.(modelId) ?? `custom/${modelId}`;
}

/** What a failure means for everybody who calls with the same credential. */
export function meaningOf({ kind, retryAfterMs }: ModelFailure): CallOutcome {
  if (DENIALS.has(kind)) return "denied";
  return LIMITS.has(kind) || retryAfterMs !== undefined ? "limited" : "neutral";
}

function unasked({ logger }: RunContext, error: unknown): GateAnswer {
  logger.warn({ problem: messageOf(error) }, "Provider gate could not be asked; calling all the same");
  return { status: "open", enteredAt: 0, holdsPlace: false };
}

/** A claim that came only to ask has not been running. */
async function handBack(
  context: RunContext,
  session: Session,
  reason: string,
  delayMs: number,
): Promise<Passage> {
  const { lease } = session;
  const runningMs = session.hasStepped ? lease.runningMs() : lease.earlierMs;
  return { status: "shut", end: await releaseRun(context, session, { reason, delayMs, runningMs }) };
}

function throughGate(context: RunContext, session: Session, name: string, admission: Admission): Passage {
  const { gate, clock, store, logger } = context;
  const { lease, address } = session;
  const { uid } = address;
  const missed = (error: unknown) =>
    logger.debug({ problem: messageOf(error) }, "Provider gate not told; its lease will");
  let renewal: { cancel(): void } | undefined;
  const keep = () => {
    renewal = clock.timeout(store.timing.renewMs, () => {
      if (!lease.isLive()) return;
      keep();
      gate.keep(name, uid).catch(missed);
    });
  };
  if (admission.holdsPlace) keep();
  return {
    status: "open",
    async leave(outcome) {
      renewal?.cancel();
      const how = leaveOf(outcome);
      const left = () => gate.leave(name, uid, admission, how);
      if (how.outcome === "limited" || how.outcome === "denied") {
        return left().then(
          (word) => (word === "known" ? "shared" : "own"),
          (error) => {
            missed(error);
            return "own";
          },
        );
      }
      // Nothing depends on it: what was bought is committed first.
      if (admission.holdsPlace) void left().catch(missed);
      return "own";
    },
  };
}

function leaveOf(outcome: ModelOutcome): Leave {
  if (outcome.status !== "failed")
    return { outcome: outcome.status === "turn" ? "ok" : "neutral", reason: outcome.status };
  const { failure } = outcome;
  const { kind: reason, retryAfterMs } = failure;
  return { outcome: meaningOf(failure), reason, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}
