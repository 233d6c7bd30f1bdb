/**
 * Bounds what this process holds of one tenant's entries for receivers and readers that may be slow, and how many of its pages it
 * reads at a time. An entry may have a megabyte, and a tenant may have dozens of receivers and hundreds of readers: their pages would
 * fill the connection that all requests share, until no answer came in time, and slow ones would fill the memory.
 */
import { LinkedList } from "../linked-list.ts";
import { onAbort } from "../stop-signal.ts";
import { isReadable, type MeasuredPage, type StreamEntry } from "./replies.ts";

/** Default of the characters that one tenant may hold, at most two pages more. */
const MOST_CHARS = 64 * 1_024 * 1_024;
const READS_AT_A_TIME = 2;
const NO_PAGE: MeasuredPage = { items: [], isLast: true, chars: 0 };

/** The readable entries of a page. `lastId`: id of its last item; undefined if it has none. `isLast`: no item followed. */
export interface HeldPage {
  readonly entries: readonly StreamEntry[];
  readonly lastId: string | undefined;
  readonly isLast: boolean;
  /** Call it once for each entry that needs no memory any more. */
  release(): void;
}

interface Held {
  reads: number;
  chars: number;
  readonly waiting: LinkedList<() => void>;
}

/** See the module's header. */
export class PageBounds {
  readonly #tenants = new Map<string, Held>();
  readonly #mostChars: number;

  constructor(mostChars = MOST_CHARS) {
    this.#mostChars = mostChars;
  }

  /**
   * Calls `read` when the tenant may hold another page, in the order of the calls. Rejects as `read` does. Once `signal` has aborted,
   * nothing is read: resolves at once with an empty page that is the last.
   */
  async read(tenant: string, read: () => Promise<MeasuredPage>, signal?: AbortSignal): Promise<HeldPage> {
    const held = this.#tenants.get(tenant) ?? { reads: 0, chars: 0, waiting: new LinkedList() };
    this.#tenants.set(tenant, held);
    await this.#turn(tenant, held, signal);
    let chars = 0;
    try {
      const { items, isLast, ...page } = signal?.aborted ? NO_PAGE : await read();
      const entries = items.filter(isReadable);
      let left = entries.length;
      if (left > 0) chars = page.chars;
      const release = () => {
        left -= 1;
        if (left > 0) return;
        held.chars -= chars;
        this.#beginNext(tenant, held);
      };
      return { entries, lastId: items.at(-1)?.id, isLast, release };
    } finally {
      held.reads -= 1;
      held.chars += chars;
      this.#beginNext(tenant, held);
    }
  }

  async #turn(tenant: string, held: Held, signal: AbortSignal | undefined): Promise<void> {
    let forget = () => {};
    await new Promise<void>((begin) => {
      const link = held.waiting.add(begin);
      this.#beginNext(tenant, held);
      forget = onAbort(signal, () => {
        if (!link.isListed) return;
        link.remove();
        held.reads += 1;
        begin();
      });
    });
    forget();
  }

  #beginNext(tenant: string, held: Held): void {
    while (!held.waiting.isEmpty && held.reads < READS_AT_A_TIME && held.chars < this.#mostChars) {
      held.reads += 1;
      held.waiting.shift()?.();
    }
    if (held.reads === 0 && held.chars === 0) this.#tenants.delete(tenant);
  }
}
