/**
 * Which requests find room with their parent, and when the others are tried again. A parent has room for ten agents, and a
 * backlog may hold any number of requests: those that wait must cost next to nothing.
 *
 * Owns: the spawns under way for each parent, and the line of those requests that found no room. A line has an owner: a
 * parent, one of its agents (a message that its inbox has no room for), or a tenant.
 *
 * 1. A spawn for which there is no room costs two small reads and leaves nothing behind: neither a deadline nor a refused spawn.
 * 2. Of one line this process tries a request every {@link APART_MS} on average, however many wait: each goes behind the
 *    others, also one that has been tried, so that none starves.
 * 3. A line is one line in the log, when its first request finds no room.
 */
import { type Client, internalsOf } from "../../producer/client.ts";
import type { Clock } from "../../shared/clock.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { MAX_LIVE_AGENTS } from "../../shared/protocol/limits.ts";

/** In a second ten requests of a line are tried: about as many as places can become free. */
const APART_MS = 100;
const SHORTEST_DELAY_MS = 500;
/** Few requests are tried as seldom as this, those of a long line as seldom as that. */
const LONGEST_DELAY_MS = 10_000;
const LONGEST_LINE_MS = 3_600_000;
/** A line whose last request has been tried for so long is forgotten. */
const FORGET_AFTER_MS = 60_000;

/** See the module's header. */
export interface IntakeQuota {
  /**
   * Runs `spawn` where the parent has room, or where the request was handed over before; else rejects with `quota_exceeded`, or
   * with what `check` throws: room would not help.
   */
  spawnWithin<T>(parent: ParentAddress, requestKey: string, request: IntakeSpawn<T>): Promise<T>;
  /**
   * When a request that found no room is to be tried again, ms from now; `waitedMs`: how long it has waited; `apartMs`: what lies
   * between two of its line, default {@link APART_MS}.
   */
  delayMs(owner: string, waitedMs: number, apartMs?: number): number;
}

/** A request that may become a spawn; `check` throws where it is refused anyway, unless it was handed over before. */
export interface IntakeSpawn<T> {
  check(): void;
  spawn(): Promise<T>;
}

/** Spawns for one parent. `asking`: requests that count on this; `begun`: all spawns since the first of them. */
interface Spawns {
  asking: number;
  underWay: number;
  begun: number;
}

/** The quota of each parent, as this process sees it. */
export function createIntakeQuota(client: Client, clock: Clock, logger: Logger): IntakeQuota {
  const spawns = new Map<string, Spawns>();
  const lines = new Map<string, { endMs: number }>();

  /** The lines stand in the order in which a request came to them last. */
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

/** The name of a line: a parent's, or one of its agents'. */
export function ownerOf({ tenant, parentId }: ParentAddress, agentId?: string): string {
  return [tenant, parentId, agentId].filter((part) => part !== undefined).join("/");
}

async function spawnIfRoom<T>(
  client: Client,
  ofParent: Spawns,
  parent: ParentAddress,
  { requestKey, check, spawn }: IntakeSpawn<T> & { requestKey: string },
): Promise<T> {
  const { call, store } = await internalsOf(client).open();
  // What the answer may not have seen: spawns under way when it was asked for, and those begun since.
  const before = ofParent.underWay - ofParent.begun;
  const { live, isKnown } = await call(({ read }) => read(() => store.occupancy(parent, requestKey)));
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
