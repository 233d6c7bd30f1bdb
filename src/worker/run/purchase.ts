/**
 * What the record says of the run's next purchase (`begun`), so that the next worker knows of a call that was under way. The
 * commit of an answer with tool calls already names the call that follows their results; the commit of the results need not.
 *
 * `begun` is the claim's id after a claim, then `<message>.<epoch>@<entries>` (of a summary `<message>-<before>.<epoch>@<entries>`): the
 * call is under way once the log has so many entries, until its message stands there. A commit writes it where another call is
 * to begin (`UpcomingPurchase.begun`). `no_purchase` clears it, and so do a release and a commit that moves the progress on and
 * neither names nor answers a call (`include/commit.lua`). The next claim reads it (`include/purchase.lua`): a call that is under
 * way then is charged to the parent (`cost.ts`).
 *
 * A purchase may take several requests, of the same bytes or of others: `RequestKeys` says by which key the provider knows each.
 */
import { createHash } from "node:crypto";
import type { Usage } from "../../shared/protocol/content.ts";
import { type NewEntry, paidIn } from "../loop/log.ts";
import type { LastAnswer } from "../loop/state.ts";
import type { ModelRequest } from "../model/model.ts";

/** What is bought: message `message`, or a summary for its sake. */
interface PurchaseTarget {
  message: number;
  compactBefore?: number;
}

/** Of a purchase's name: the message before which it sums everything up; undefined where it bought a message. */
export function summedUpBy(name: string): number | undefined {
  const message = /^\d+-(\d+)\./.exec(name)?.[1];
  return message === undefined ? undefined : Number(message);
}

/** What a commit is told of the purchase behind it. */
export interface UpcomingPurchase {
  /** The id of the one that begins after it. */
  begun?: string | undefined;
  /** So many results of calls are to come. */
  results?: number;
}

/** What a commit has taken to Redis; `id`: by which Redis knew the call then, `head`: how its entry in the log begins. */
export interface BookedPurchase {
  id: string;
  key: string;
  head: string;
  usage: Usage;
  costUsd: number;
}

/** What a commit says of it; `id`: the purchase that Redis knows of then. */
export interface BegunUpdate {
  id: string;
  startsWithLastResult: boolean;
  begun: string | undefined;
  no_purchase: boolean;
}

/**
 * The `Idempotency-Key` of each request: the same for the same bytes, another for others. A provider that keeps the key may refuse
 * other bytes under it, or return the answer to the earlier ones. The first request of a purchase bears the purchase's id; only
 * behind one that brought nothing are requests digested, so a call that is answered costs nothing here.
 */
class RequestKeys {
  /** Of the last purchase whose first request brought nothing: its id, and the digest of that request. */
  #failed: { id: string; digest: string } | undefined;

  /** The key of `request` for purchase `id`. */
  keyOf(id: string, request: RequestBytes): string {
    if (this.#failed?.id !== id) return id;
    const digest = digestOf(request);
    return digest === this.#failed.digest ? id : `${id}-${digest}`;
  }

  /** `request` for purchase `id` brought nothing: another may follow it. */
  broughtNothing(id: string, request: RequestBytes): void {
    if (this.#failed?.id !== id) this.#failed = { id, digest: digestOf(request) };
  }
}

/** What the bytes of a request follow from. */
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
  /** Under which id Redis knows that a call may be under way, or is about to begin. */
  id: string;
  readonly requestKeys = new RequestKeys();
  /** What this claim has paid for and Redis has acknowledged, oldest first. A failover may forget the newest of it. */
  readonly booked: BookedPurchase[] = [];
  /** Whether Redis counts it as begun as soon as the last result of its turn is in the log. */
  #startsWithLastResult = false;
  readonly #uid: string;
  readonly #epoch: number;

  constructor(uid: string, claimId: string, epoch: number) {
    this.id = `${uid}.${claimId}`;
    this.#uid = uid;
    this.#epoch = epoch;
  }

  /** The id of the purchase of a message, or of a summary for its sake: the same for every try of a claim. */
  idOf({ message, compactBefore }: PurchaseTarget): string {
    return `${this.#uid}.${compactBefore === undefined ? message : `${message}-${compactBefore}`}.${this.#epoch}`;
  }

  /** The `begun` to send with a commit. `entries`: those of the log behind it, `last`: the last answer. Undefined: the commit names none. */
  updateFor(
    last: LastAnswer | undefined,
    entries: number,
    { begun, results = 0 }: UpcomingPurchase,
  ): BegunUpdate | undefined {
    const open = last?.calls.filter(({ isAnswered }) => !isAnswered).length ?? 0;
    if (last && results > 0 && results === open)
      return this.#say(this.idOf({ message: last.message + 2 }), entries + results, true);
    if (begun !== undefined && !(this.#startsWithLastResult && begun === this.id))
      return this.#say(begun, entries, false);
    if (!this.#startsWithLastResult || results > 0 || open > 0) return undefined;
    return { id: this.id, startsWithLastResult: false, begun: undefined, no_purchase: begun === undefined };
  }

  #say(id: string, entries: number, startsWithLastResult: boolean): BegunUpdate {
    return {
      id,
      startsWithLastResult,
      begun: `${id.slice(this.#uid.length + 1)}@${entries}`,
      no_purchase: false,
    };
  }

  /** The log stands otherwise than was thought: nothing begins by itself. */
  forget(): void {
    this.#startsWithLastResult = false;
  }

  /** A commit has taken `entries` to Redis, and said `update`. */
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
