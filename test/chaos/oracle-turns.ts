/** The oracle's second part: judges the model calls. Pure. */
import type { LedgerEntry } from "../../src/offline/server.ts";
import { countOf, type Evidence, type Lookup, type Violation } from "./evidence.ts";
import { isCaughtByJump } from "./oracle-jumps.ts";

/** Matches the `<uid> <log entry>` of a model's message. */
const TURN = / \d*[13579]$/;

/** A model call with the parts of its idempotency key. */
export interface NamedCall {
  call: LedgerEntry;
  uid: string;
  /** Number of the log entry for its answer. */
  message: number;
  /** Epoch of the claim under which it was made. */
  epoch: number;
}

/** Returns the violations in the model calls. */
export function judgeTurns(evidence: Evidence, lookup: Lookup): Violation[] {
  const calls = namedCalls(evidence.ledger);
  return [
    ...refused(evidence.ledger),
    ...boughtTwice(calls, lookup),
    ...paidTwice(calls),
    ...boughtStale(calls, evidence, lookup),
    ...unpaid(calls, lookup),
    ...unwritten(evidence, lookup),
  ];
}

/** Parses the `Idempotency-Key` of each call. */
export function namedCalls(ledger: readonly LedgerEntry[]): NamedCall[] {
  return ledger.flatMap((call) => {
    const [, uid, message, epoch] =
      /^(.+)\.(\d+)\.(\d+)(?:-[0-9a-f]+)?$/.exec(call.idempotency_key ?? "") ?? [];
    return uid === undefined ? [] : [{ call, uid, message: Number(message), epoch: Number(epoch) }];
  });
}

function refused(ledger: readonly LedgerEntry[]): Violation[] {
  return ledger
    .filter(({ status, idempotency_key }) => status === "error" || idempotency_key === null)
    .map((call) => ({
      broken: "no conversation is refused by the model's API",
      detail: `${call.http_status} ${call.error_type} for ${call.idempotency_key}`,
      uid: (call.idempotency_key ?? "").split(".")[0] ?? "",
    }));
}

function boughtTwice(calls: readonly NamedCall[], { committedAt }: Lookup): Violation[] {
  return calls.flatMap(({ call, uid, message }) => {
    const at = committedAt.get(`${uid} ${message}`) ?? Infinity;
    if (call.began_at <= at) return [];
    const detail = `message ${message} was committed ${Math.round(call.began_at - at)} ms before it was bought again`;
    return [{ broken: "no committed turn is bought again", detail, uid }];
  });
}

/** Checks that no turn is served twice under one claim: a worker commits each answer, or loses it with its claim. */
function paidTwice(calls: readonly NamedCall[]): Violation[] {
  const served = calls.flatMap(({ call, uid, message, epoch }) =>
    call.status === "served" ? [`${uid} ${message} ${epoch}`] : [],
  );
  return [...countOf(served)].flatMap(([name, times]) => {
    if (times === 1) return [];
    const [uid = "", message, epoch] = name.split(" ");
    const detail = `message ${message} was served ${times} times under epoch ${epoch}`;
    return [{ broken: "no turn is bought twice under one claim", detail, uid }];
  });
}

function boughtStale(calls: readonly NamedCall[], evidence: Evidence, lookup: Lookup): Violation[] {
  return calls.flatMap(({ call, uid, message, epoch }) => {
    const taken = lookup.claims.get(uid)?.find((claim) => claim.epoch > epoch);
    if (!taken || call.began_at <= taken.at) return [];
    if (isCaughtByJump(evidence, lookup, { uid, at: call.began_at })) return [];
    const lateMs = Math.round(call.began_at - taken.at);
    const detail = `epoch ${epoch} asked for message ${message} ${lateMs} ms after epoch ${taken.epoch} was given out`;
    return [{ broken: "a worker that has lost a run buys nothing for it", detail, uid }];
  });
}

function unpaid(calls: readonly NamedCall[], { committedAt }: Lookup): Violation[] {
  const served = new Set(
    calls.flatMap(({ call, uid, message }) => (call.status === "served" ? [`${uid} ${message}`] : [])),
  );
  return [...committedAt.keys()]
    .filter((key) => TURN.test(key) && !served.has(key))
    .map((key) => ({
      broken: "every turn in a log was bought",
      detail: `${key} was never served`,
      uid: key.split(" ")[0] ?? "",
    }));
}

/** Checks that the log has every turn: without commits in the evidence, no purchase could be judged. */
function unwritten({ load }: Evidence, lookup: Lookup): Violation[] {
  const written = countOf(
    [...lookup.committedAt.keys()].filter((key) => TURN.test(key)).map((key) => key.split(" ")[0] ?? ""),
  );
  return load.told.flatMap((told) => {
    const uid = lookup.uidOf(told) ?? "";
    const turns = told.story.turns.reduce((sum, count) => sum + count, 0);
    const found = written.get(uid) ?? 0;
    if (found === turns) return [];
    const detail = `story ${told.story.number} has ${turns} turns, its log had ${found}`;
    return [{ broken: "every turn of a run is in its log", detail, uid }];
  });
}
