/**
 * Follows the agents of a parent, and those of other parents that are found meanwhile, until it is told to stop.
 *
 * Owns: which parents are followed. Its neighbours: `agent-watch.ts` follows one of them; who is found, and who is told, the
 * command decides.
 *
 * 1. A found parent is followed until none of its agents has been live for {@link QUIET_MS}. It is followed again when it was
 *    active since; so what is held is bounded by the parents at work, however many there have been.
 * 2. The first watch that fails ends all of them.
 * 3. It ends when nothing is read any more of what it tells.
 */
import type { Parent } from "../../producer/parent.ts";
import type { Clock } from "../../shared/clock.ts";
import { onAbort, StopSignal } from "../../shared/stop-signal.ts";
import { type WatchListener, watchAgents } from "./agent-watch.ts";

/** A parent as far as it is followed. */
export type WatchedParent = Pick<Parent, "parentId" | "list" | "get" | "events" | "stop">;

/** A parent that was active lately: `activeAt` is another one once it was active again. */
export interface FoundParent<P extends WatchedParent> {
  parentId: string;
  activeAt: string;
  open(): P;
}

/** What is followed, and who is told. */
export interface ParentsWatch<P extends WatchedParent> {
  parent: P;
  clock: Clock;
  signal: AbortSignal;
  /** The other parents that were active lately; undefined: not to be had at the moment. May not reject. */
  find(): Promise<readonly FoundParent<P>[] | undefined>;
  listenerFor(parent: P): WatchListener;
  /** Whether anybody reads what the listeners print. May not reject. */
  hasReader(): Promise<boolean>;
}

const FIND_EVERY_MS = 1_000;
/** A parent without live agents is followed this long. */
const QUIET_MS = 10_000;

/** Follows them until `signal` aborts or the reader is gone. Rejects with what is no passing failure of Redis. */
export async function watchParents<P extends WatchedParent>(watch: ParentsWatch<P>): Promise<void> {
  const { parent, clock, signal, find, hasReader } = watch;
  const ending = new StopSignal();
  const forget = onAbort(signal, () => ending.stop());
  const followed = new Followed(watch, ending);
  followed.begin(parent, {});
  let isAsking = false;
  // Not waited for: a reader that is slow must not hold up the end.
  const askReader = async () => {
    if (isAsking) return;
    isAsking = true;
    if (!(await hasReader())) ending.stop();
    isAsking = false;
  };
  while (!ending.isStopped) {
    followed.found(await find());
    await clock.sleep(FIND_EVERY_MS, ending.signal);
    void askReader();
  }
  forget();
  await followed.ended();
}

/** The parents that are followed now. */
class Followed<P extends WatchedParent> {
  readonly #watch: ParentsWatch<P>;
  readonly #ending: StopSignal;
  readonly #watching = new Map<string, Promise<void>>();
  /** Found parents that have gone quiet: when each had been active when its watch began, so that no activity after it is missed. */
  readonly #quiet = new Map<string, string>();
  #failure: { error: unknown } | undefined;

  constructor(watch: ParentsWatch<P>, ending: StopSignal) {
    this.#watch = watch;
    this.#ending = ending;
  }

  /** Follows the parent for `quietMs` without live agents. Does not reject. */
  begin(parent: P, quiet: { quietMs?: number }): Promise<void> {
    const { clock, listenerFor } = this.#watch;
    const options = { clock, signal: this.#ending.signal, ...quiet };
    const watching = watchAgents(parent, options, listenerFor(parent))
      .catch((error: unknown) => {
        this.#failure ??= { error };
        this.#ending.stop();
      })
      .finally(() => this.#watching.delete(parent.parentId));
    this.#watching.set(parent.parentId, watching);
    return watching;
  }

  /** Follows those that are new, or active again. */
  found(parents: readonly FoundParent<P>[] | undefined): void {
    if (!parents || this.#ending.isStopped) return;
    const ids = new Set(parents.map(({ parentId }) => parentId));
    for (const parentId of this.#quiet.keys()) if (!ids.has(parentId)) this.#quiet.delete(parentId);
    for (const { parentId, activeAt, open } of parents) {
      if (this.#watching.has(parentId) || this.#quiet.get(parentId) === activeAt) continue;
      const parent = open();
      void this.begin(parent, { quietMs: QUIET_MS }).then(() => {
        this.#quiet.set(parentId, activeAt);
        return parent.stop();
      });
    }
  }

  /** Resolves when none is followed any more; rejects with the first failure. */
  async ended(): Promise<void> {
    await Promise.all(this.#watching.values());
    if (this.#failure) throw this.#failure.error;
  }
}
