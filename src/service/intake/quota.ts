/**
 * The quota check of intake requests, and the retry times of those without room. A parent has room for ten agents, and a
 * backlog may hold any number of requests, so a waiting request must cost very little.
 *
 * Owns: the running spawns of each parent, and the waiting lines of requests without room. A line belongs to a parent, to one
 * of its agents (a message to a full inbox), or to a tenant.
 *
 * 1. A spawn without room costs three small reads and leaves nothing behind: neither a deadline nor a refused spawn.
 * 2. This process tries one request of a line every {@link APART_MS} on average, for any length of the line. Each request goes
 *    to the end of the line, also after a failed attempt, so that none starves.
 * 3. A line is logged once, when its first request finds no room.
 */
import { type Client, internalsOf } from "../../producer/client.ts";
import type { Clock } from "../../shared/clock.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { MAX_LIVE_AGENTS } from "../../shared/protocol/limits.ts";

/** Interval between attempts of a line: ten a second, about as many as slots become free. */
const APART_MS = 100;
const SHORTEST_DELAY_MS = 500;
/** Maximum delay of a request in a short line, and in a long line. */
const LONGEST_DELAY_MS = 10_000;
const LONGEST_LINE_MS = 3_600_000;
/** A line is dropped this long after its last planned attempt. */
const FORGET_AFTER_MS = 60_000;

/** See the module's header. */
export interface IntakeQuota {
  /**
   * Runs `spawn` if the parent has room, or if the request was handed over before. Otherwise rejects with `quota_exceeded`, or
   * with the error of `check` if the request would be refused even with room.
   */
  spawnWithin<T>(parent: ParentAddress, requestKey: string, request: IntakeSpawn<T>): Promise<T>;
  /**
   * Returns the delay before a request without room is retried, ms; `waitedMs`: its wait so far; `apartMs`: interval between
   * two attempts of its line, default {@link APART_MS}.
   */
  delayMs(owner: string, waitedMs: number, apartMs?: number): number;
}

/** A request that may become a spawn; `check` throws if a new request is invalid. It does not run for a repeated request. */
export interface IntakeSpawn<T> {
  check(): void;
  spawn(): Promise<T>;
}

/** Spawns of one parent. `asking`: requests that use this object; `begun`: all spawns since the first of them. */
interface Spawns {
  asking: number;
  underWay: number;
  begun: number;
}

/** Creates the quota check of this process, for all parents. */
export function createIntakeQuota(client: Client, clock: Clock, logger: Logger): IntakeQuota {
  const spawns = new Map<string, Spawns>();
  const lines = new Map<string, { endMs: number }>();

  /** Drops old lines. The map is in the order of the last request that joined each line. */
  const forget = (nowMs: number) => {
    for (const [owner, { endMs }] of lines) {
      if (endMs + FORGET_AFTER_MS > nowMs) return;
      lines.delete(owner);
    }
  };
  return {
    async spawnWithin(parent, requestKey, request) {
      const owner = ownerOf(parent);
      const ofParent = spawns.get(owner) ?? { asking: 0, underWay: 0, begun: 0 };
      spawns.set(owner, ofParent);
      ofParent.asking += 1;
      try {
        return await spawnIfRoom(client, ofParent, parent, { requestKey, ...request });
      } finally {
        ofParent.asking -= 1;
        if (ofParent.asking === 0) spawns.delete(owner);
      }
    },
    delayMs(owner, waitedMs, apartMs = APART_MS) {
      const nowMs = clock.monotonicMs();
      const line = lines.get(owner);
      if (!line) logger.warn({ owner }, "No room for an intake request: it waits, and those behind it");
      const nextMs = Math.max(line?.endMs ?? 0, nowMs + SHORTEST_DELAY_MS) + apartMs;
      const endMs = Math.min(nextMs, nowMs + LONGEST_LINE_MS);
      lines.delete(owner);
      lines.set(owner, { endMs });
      forget(nowMs);
      return Math.max(Math.min(LONGEST_DELAY_MS, waitedMs / 10), endMs - nowMs);
    },
  };
}

/** Returns the name of the line of a parent, or of one of its agents. */
export function ownerOf({ tenant, parentId }: ParentAddress, agentId?: string): string {
  return [tenant, parentId, agentId].filter((part) => part !== undefined).join("/");
}

async function spawnIfRoom<T>(
  client: Client,
  ofParent: Spawns,
  parent: ParentAddress,
  { requestKey, check, spawn }: IntakeSpawn<T> & { requestKey: string },
): Promise<T> {
  const { read, store } = await internalsOf(client).open();
  // The answer may not include spawns that were running at the request, and spawns begun after it.
  const before = ofParent.underWay - ofParent.begun;
  const { live, isKnown } = await read(() => store.occupancy(parent, requestKey));
  if (!isKnown) {
    check();
    if (live + before + ofParent.begun >= MAX_LIVE_AGENTS) throw noRoom();
  }
  ofParent.begun += 1;
  ofParent.underWay += 1;
  try {
    return await spawn();
  } finally {
    ofParent.underWay -= 1;
  }
}

function noRoom(): SubagentError {
  return new SubagentError(
    "quota_exceeded",
    `This parent has ${MAX_LIVE_AGENTS} live sub-agents, the most allowed: wait for one to finish or destroy one.`,
    { max_live: MAX_LIVE_AGENTS },
  );
}
