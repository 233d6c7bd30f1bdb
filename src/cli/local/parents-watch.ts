/**
 * Follows the agents of a parent, and those of other parents found meanwhile, until a signal stops it.
 *
 * Owns the list of followed parents. `agent-watch.ts` follows one of them. The command finds parents and gets the reports.
 *
 * 1. A found parent is followed until none of its agents has been live for {@link QUIET_MS}, and again after later activity.
 *    So memory is bounded by the active parents.
 * 2. The first watch that fails ends all of them.
 * 3. It ends when the output has no reader.
 */
import type { Parent } from "../../producer/parent.ts";
import type { Clock } from "../../shared/clock.ts";
import { onAbort, StopSignal } from "../../shared/stop-signal.ts";
import { type WatchListener, watchAgents } from "./agent-watch.ts";

/** The part of a parent that a watch uses. */
export type WatchedParent = Pick<Parent, "parentId" | "list" | "get" | "events" | "stop">;

/** A parent that was active recently; `activeAt` changes with each activity. */
export interface FoundParent<P extends WatchedParent> {
  parentId: string;
  activeAt: string;
  open(): P;
}

/** Options of {@link watchParents}. */
export interface ParentsWatch<P extends WatchedParent> {
  parent: P;
  clock: Clock;
  signal: AbortSignal;
  /** Finds the other recently active parents; undefined: they cannot be read now. Must not reject. */
  find(): Promise<readonly FoundParent<P>[] | undefined>;
  listenerFor(parent: P): WatchListener;
  /** Resolves to true while the listeners' output has a reader. Must not reject. */
  hasReader(): Promise<boolean>;
}

const FIND_EVERY_MS = 1_000;
/** Time for which a parent without live agents is followed. */
const QUIET_MS = 10_000;

/** Follows the parents until `signal` aborts or the reader is gone. Rejects with the first error that is not retryable. */
export async function watchParents<P extends WatchedParent>(watch: ParentsWatch<P>): Promise<void> {
  const { parent, clock, signal, find, hasReader } = watch;
  const ending = new StopSignal();
  const forget = onAbort(signal, () => ending.stop());
  const followed = new Followed(watch, ending);
  followed.begin(parent, {});
  let isAsking = false;
  // The loop does not await this, because a slow reader must not delay the end.
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

/** The followed parents. */
class Followed<P extends WatchedParent> {
  readonly #watch: ParentsWatch<P>;
  readonly #ending: StopSignal;
  readonly #watching = new Map<string, Promise<void>>();
  /** Quiet parents with their `activeAt` from the beginning of their watch, so that later activity is noticed. */
  readonly #quiet = new Map<string, string>();
  #failure: { error: unknown } | undefined;

  constructor(watch: ParentsWatch<P>, ending: StopSignal) {
    this.#watch = watch;
    this.#ending = ending;
  }

  /** Follows the parent until it had no live agents for `quietMs`. Does not reject. */
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

  /** Follows the parents that are new or active again. */
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

  /** Resolves when all watches have ended; rejects with the first failure. */
  async ended(): Promise<void> {
    await Promise.all(this.#watching.values());
    if (this.#failure) throw this.#failure.error;
  }
}
