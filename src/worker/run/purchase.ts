/**
 * The next purchase of a run in its record (`begun`), so that the next worker knows about a call that was under way. The
 * commit of an answer with tool calls already names the call after their results; the commit of the results need not.
 *
 * `begun` is the claim's id after a claim, then `<message>.<epoch>@<entries>` (for a summary
 * `<message>-<before>.<epoch>@<entries>`). The call is under way from the time when the log has `entries` entries until it
 * has the call's message. A commit writes it if another call will begin (`UpcomingPurchase.begun`). `no_purchase` clears it,
 * and so do a release, a question to the parent, the first commit of a claim if it names no call, and a commit that has a
 * progress and neither names nor answers a call (`include/commit.lua`). The next claim reads it (`include/purchase.lua`): a
 * call that is under way then is charged to the parent (`cost.ts`).
 *
 * A purchase may take several requests, of the same bytes or of others: `RequestKeys` gives each its key for the provider.
 */
import { createHash } from "node:crypto";
import type { Usage } from "../../shared/protocol/content.ts";
import { type LogEntry, type NewEntry, paidIn } from "../loop/log.ts";
import type { LastAnswer } from "../loop/state.ts";
import type { ModelRequest } from "../model/model.ts";

/** Object of a purchase: message `message`, or a summary that comes before it. */
interface PurchaseTarget {
  message: number;
  compactBefore?: number;
}

/** Returns the message before which a purchase of this name sums up everything; undefined if it bought a message. */
export function summedUpBy(name: string): number | undefined {
  const message = /^\d+-(\d+)\./.exec(name)?.[1];
  return message === undefined ? undefined : Number(message);
}

/**
 * Returns the call of an entry that cannot enter the log, as a paid call without a usable answer; undefined if the entry is no
 * paid call.
 */
export function unusedCallOf(entry: LogEntry) {
  const paid = paidIn(entry);
  if (!paid) return undefined;
  const message = entry.kind === "compacted" ? entry.message + 1 : entry.message;
  const { cut_off = false, sums_up } = entry.kind === "purchase" ? entry.value : { cut_off: true };
  return { message, isCutOff: cut_off, compactBefore: sums_up, ...paid };
}

/** The purchase that follows a commit. */
export interface UpcomingPurchase {
  /** The id of the purchase that begins after it. */
  begun?: string | undefined;
  /** Number of tool results that are still to come. */
  results?: number;
}

/** A committed purchase. `id`: its id in Redis at that time; `head`: the beginning of its log entry. */
export interface BookedPurchase {
  id: string;
  key: string;
  head: string;
  usage: Usage;
  costUsd: number;
}

/** The update of `begun` by a commit. `id`: the purchase that Redis knows after it. */
export interface BegunUpdate {
  id: string;
  startsWithLastResult: boolean;
  begun: string | undefined;
  no_purchase: boolean;
}

/**
 * The `Idempotency-Key` of each request: the same for the same bytes, another for others. A provider that stores the key may
 * refuse other bytes under it, or return the answer to the earlier ones. The first request of a purchase has the purchase's
 * id as key; only after one that failed are requests digested, so an answered call costs nothing here.
 */
class RequestKeys {
  /** The last purchase whose first request failed: its id, and the digest of that request. */
  #failed: { id: string; digest: string } | undefined;

  keyOf(id: string, request: RequestBytes): string {
    if (this.#failed?.id !== id) return id;
    const digest = digestOf(request);
    return digest === this.#failed.digest ? id : `${id}-${digest}`;
  }

  /** Notes that `request` for purchase `id` failed: another may follow. */
  noteFailed(id: string, request: RequestBytes): void {
    if (this.#failed?.id !== id) this.#failed = { id, digest: digestOf(request) };
  }
}

/** The parts that determine the bytes of a request. */
type RequestBytes = Omit<ModelRequest, "idempotencyKey" | "traceparent">;

const DIGEST_CHARS = 8;

function digestOf(request: RequestBytes): string {
  const { model, head, messages, cachedLength, extra, beta = "", maxTokens, stream } = request;
  const parts = [model, head, messages, cachedLength, extra, beta, maxTokens, stream];
  const hash = createHash("sha256");
  for (const part of parts) hash.update(`${part}\n`);
  return hash.digest("hex").slice(0, DIGEST_CHARS);
}

/** See the module's header. */
export class NextPurchase {
  /** Id under which Redis records that a call may be under way, or is about to begin. */
  id: string;
  readonly requestKeys = new RequestKeys();
  /** Purchases of this claim that Redis has acknowledged, oldest first. A failover may lose the newest. */
  readonly booked: BookedPurchase[] = [];
  /** Id of the last reservation in the run's budgets. */
  reservation = "";
  #tries = 0;
  /** True if Redis counts it as begun as soon as the last result of its turn is in the log. */
  #startsWithLastResult = false;
  readonly #uid: string;
  readonly #epoch: number;

  constructor(uid: string, claimId: string, epoch: number) {
    this.id = `${uid}.${claimId}`;
    this.#uid = uid;
    this.#epoch = epoch;
  }

  /** Returns the id of the purchase of a message, or of a summary before it: the same for every try of a claim. */
  idOf({ message, compactBefore }: PurchaseTarget): string {
    return `${this.#uid}.${compactBefore === undefined ? message : `${message}-${compactBefore}`}.${this.#epoch}`;
  }

  /** Begins a reservation. Each try has its own: that of an earlier one may be settled later than this one is made. */
  beginReservation(target: PurchaseTarget): string {
    this.#tries += 1;
    this.reservation = `${this.idOf(target)}.${this.#tries}`;
    return this.reservation;
  }

  /** Returns the `begun` of a commit, or undefined if it names none. `entries`: log length after it; `last`: the last answer. */
  updateFor(
    last: LastAnswer | undefined,
    entries: number,
    { begun, results = 0 }: UpcomingPurchase,
  ): BegunUpdate | undefined {
    const open = last?.calls.filter(({ isAnswered }) => !isAnswered).length ?? 0;
    if (last && results > 0 && results === open)
      return this.#begunUpdate(this.idOf({ message: last.message + 2 }), entries + results, true);
    if (begun !== undefined && !(this.#startsWithLastResult && begun === this.id))
      return this.#begunUpdate(begun, entries, false);
    if (!this.#startsWithLastResult || results > 0 || open > 0) return undefined;
    return { id: this.id, startsWithLastResult: false, begun: undefined, no_purchase: begun === undefined };
  }

  #begunUpdate(id: string, entries: number, startsWithLastResult: boolean): BegunUpdate {
    return {
      id,
      startsWithLastResult,
      begun: `${id.slice(this.#uid.length + 1)}@${entries}`,
      no_purchase: false,
    };
  }

  /** Called when the log differs from what was expected: no purchase begins by itself. */
  forget(): void {
    this.#startsWithLastResult = false;
  }

  /** Notes that a commit has brought `entries` and `update` to Redis. */
  committed(entries: readonly NewEntry[], update?: BegunUpdate): void {
    for (const { key, json, head = json, entry } of entries) {
      const paid = paidIn(entry);
      if (paid) this.booked.push({ id: this.id, key, head, usage: paid.usage, costUsd: paid.costUsd });
    }
    if (!update) return;
    this.id = update.id;
    this.#startsWithLastResult = update.startsWithLastResult;
  }
}
