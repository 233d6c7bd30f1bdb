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
import type { Client } from "../../producer/client.ts";
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
/** A parent is found if it was active within this time. */
const ACTIVE_MS = 600_000;
/** Interval of the whole searches: the times in the index may go back, after a failover or a step of Redis' clock. */
const WHOLE_EVERY_MS = 30_000;

/** A parent as a client lists it. */
type ListedParent = Awaited<ReturnType<Client["parents"]>>[number];

/** Dependencies of {@link parentFinder}. `redisNowMs`: epoch ms, Redis' clock. */
export interface FinderParts {
  client: Pick<Client, "parents">;
  clock: Pick<Clock, "monotonicMs">;
  redisNowMs(): number;
  isWanted(parent: ListedParent): boolean;
}

/**
 * Returns a search for the wanted parents that were active in the last ten minutes. It is made every second, so it reads of the
 * installation's parents only those that were active since the search before, and all of them every 30 s. Rejects as `parents` does.
 */
export function parentFinder(parts: FinderParts): () => Promise<ListedParent[]> {
  const { client, clock, redisNowMs, isWanted } = parts;
  const wanted = new Map<string, ListedParent>();
  let last: { readonly wholeAtMs: number; readonly newest: string } | undefined;
  return async () => {
    const nowMs = clock.monotonicMs();
    const before = last && nowMs - last.wholeAtMs < WHOLE_EVERY_MS ? last : undefined;
    const since = before?.newest ?? new Date(redisNowMs() - ACTIVE_MS).toISOString();
    const found = await client.parents({ since });
    if (!before) wanted.clear();
    for (const parent of found.filter(isWanted)) wanted.set(parent.parent_id, parent);
    last = { wholeAtMs: before?.wholeAtMs ?? nowMs, newest: found[0]?.active_at ?? since };
    return [...wanted.values()];
  };
}

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
