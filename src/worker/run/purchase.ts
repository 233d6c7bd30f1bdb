/**
 * What the record says of the run's next purchase (`begun`), so that the next worker knows of a call that was under way. The
 * commit of an answer with tool calls already names the call that follows their results; the commit of the results need not.
 */
import type { Turn } from "../loop/state.ts";

/** What is bought: message `message`, or a summary for its sake. */
export interface PurchaseTarget {
  message: number;
  sumsUp?: number;
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

/** What a commit says of it; `id`: the purchase that Redis knows of then. */
export interface BegunUpdate {
  id: string;
  isAhead: boolean;
  begun: string | undefined;
  no_purchase: boolean;
}

/** See the module's header. */
export class NextPurchase {
  /** Under which id Redis knows that a call may be under way, or is about to begin. */
  id: string;
  /** Whether Redis counts it as begun as soon as the last result of its turn is in the log. */
  #isAhead = false;
  readonly #uid: string;
  readonly #epoch: number;

  constructor(uid: string, claimId: string, epoch: number) {
    this.id = `${uid}.${claimId}`;
    this.#uid = uid;
    this.#epoch = epoch;
  }

  /** The same for every try of a claim. */
  idOf({ message, sumsUp }: PurchaseTarget): string {
    return `${this.#uid}.${sumsUp === undefined ? message : `${message}-${sumsUp}`}.${this.#epoch}`;
  }

  /** What the commit says after which the log has `entries` and the last turn is `turn`; undefined: nothing. */
  updateFor(
    turn: Turn | undefined,
    entries: number,
    { begun, results = 0 }: UpcomingPurchase,
  ): BegunUpdate | undefined {
    const open = turn?.calls.filter(({ isAnswered }) => !isAnswered).length ?? 0;
    if (turn && results > 0 && results === open)
      return this.#say(this.idOf({ message: turn.message + 2 }), entries + results, true);
    if (begun !== undefined && !(this.#isAhead && begun === this.id)) return this.#say(begun, entries, false);
    if (!this.#isAhead || results > 0 || open > 0) return undefined;
    return { id: this.id, isAhead: false, begun: undefined, no_purchase: begun === undefined };
  }

  #say(id: string, entries: number, isAhead: boolean): BegunUpdate {
    return { id, isAhead, begun: `${id.slice(this.#uid.length + 1)}@${entries}`, no_purchase: false };
  }

  /** The log stands otherwise than was thought: nothing begins by itself. */
  forget(): void {
    this.#isAhead = false;
  }

  /** The commit has said it. */
  applied({ id, isAhead }: BegunUpdate): void {
    this.id = id;
    this.#isAhead = isAhead;
  }
}
