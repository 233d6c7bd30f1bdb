/**
 * Bounds what the pushes of this process hold of one tenant's entries, and how many of its pages they read at a time. An entry
 * may have a megabyte, and dozens of a tenant's parents are pushed at once: their pages would fill the connection that all
 * requests share, until no answer came in time, and slow receivers would fill the memory.
 */
import { isReadable, type MeasuredPage, type StreamEntry } from "../../shared/redis/replies.ts";

/** Default of the characters that one tenant may hold, at most two pages more. */
const MOST_CHARS = 64 * 1_024 * 1_024;
const READS_AT_A_TIME = 2;

/** The readable entries of a page. `lastId`: id of its last item; undefined if no item followed it, or if it has none. */
export interface HeldPage {
  readonly entries: readonly StreamEntry[];
  readonly lastId: string | undefined;
  /** Call it once for each entry that needs no memory any more. */
  release(): void;
}

interface Held {
  reads: number;
  chars: number;
  readonly waiting: (() => void)[];
}

/** See the module's header. */
export class PageBounds {
  readonly #tenants = new Map<string, Held>();
  readonly #mostChars: number;

  constructor(mostChars = MOST_CHARS) {
    this.#mostChars = mostChars;
  }

  /** Calls `read` when the tenant may hold another page, in the order of the calls. Rejects as `read` does. */
  async read(tenant: string, read: () => Promise<MeasuredPage>): Promise<HeldPage> {
    const held = this.#tenants.get(tenant) ?? { reads: 0, chars: 0, waiting: [] };
    this.#tenants.set(tenant, held);
    await new Promise<void>((resolve) => {
      held.waiting.push(resolve);
      this.#beginNext(tenant, held);
    });
    let chars = 0;
    try {
      const { items, isLast, ...page } = await read();
      const entries = items.filter(isReadable);
      let left = entries.length;
      if (left > 0) chars = page.chars;
      const release = () => {
        left -= 1;
        if (left > 0) return;
        held.chars -= chars;
        this.#beginNext(tenant, held);
      };
      return { entries, lastId: isLast ? undefined : items.at(-1)?.id, release };
    } finally {
      held.reads -= 1;
      held.chars += chars;
      this.#beginNext(tenant, held);
    }
  }

  #beginNext(tenant: string, held: Held): void {
    while (held.waiting.length > 0 && held.reads < READS_AT_A_TIME && held.chars < this.#mostChars) {
      held.reads += 1;
      held.waiting.shift()?.();
    }
    if (held.reads === 0 && held.chars === 0) this.#tenants.delete(tenant);
  }
}
