/**
 * The pause of an installation: an operator's "stop spending now". The pause is one key. Every worker reads it once a
 * second, and also before a call if its last read is too old. The wake queue is paused as well, so that no worker takes a
 * run meanwhile.
 *
 * 1. A failure half-way leaves the key set, or the installation running: never a queue that stands still for a reason that
 *    no process can read. The same call again finishes it. While Redis has no memory left, only the key is set: no run is
 *    claimed then, and no call begins afterwards either.
 * 2. Key and queue agree as soon as every call has resolved, however many operators pause and resume at once.
 * 3. Spawns, messages and destroys continue; nothing is lost by waiting, but a message's `max_age` is not extended.
 */
import { z } from "zod";
import { type Clock, systemClock } from "../clock.ts";
import { unlessMistyped } from "../errors.ts";
import { isoTime } from "../protocol/agent.ts";
import type { Keys } from "../protocol/keys.ts";
import { TIMING } from "../protocol/limits.ts";
import type { RedisClient } from "./connection/connection.ts";
import { isOutOfMemory } from "./connection/server-check.ts";
import { redisNowMs } from "./redis-time.ts";
import { loadScripts } from "./scripts.ts";
import { SENT_ONCE, type Steps } from "./steps.ts";
import { createWakeQueue } from "./wake-queue.ts";

/** A worker trusts its last read of pause and limits this long: no call begins on older knowledge. */
export const PAUSE_KNOWN_MS = 1_500;

/** Reason of a pause: 1 to 500 characters, for people. */
export const PauseReason = z.string().min(1).max(500);

/** Value of the key while an installation is paused; `at` is ISO 8601. */
const PauseNote = z.object({ v: z.literal(1), at: z.string(), reason: PauseReason.optional() });

/** Start of a pause and the operator's reason. */
export interface PauseState {
  /** ISO 8601. */
  at: string;
  reason?: string;
}

/** See the module's header. */
export interface Pause {
  /**
   * Pauses; resolves to the pause in force: if the installation is paused already, the first reason is kept. A model call
   * begun before it resolves may still end.
   */
  pause(reason?: string): Promise<PauseState>;
  /** Resumes; resolves to the pause that it ended, undefined if the installation was not paused. */
  resume(): Promise<PauseState | undefined>;
  /** Reads the pause in force; undefined while the installation is not paused. */
  state(): Promise<PauseState | undefined>;
}

/** A pause in its two steps, for a caller that has no time for both. */
export interface SteppedPause extends Pause {
  /** As `pause`, but calls may still begin until {@link SteppedPause.known}. */
  begin(reason?: string): Promise<PauseState>;
  /** Resolves when every worker knows the state written before, or asks before it calls. */
  known(): Promise<void>;
}

/** Returns the pause of the installation that `keys` name; `steps` send its commands. */
export function createPause(
  redis: RedisClient,
  keys: Keys,
  clock: Clock = systemClock,
  steps: Steps = SENT_ONCE,
): SteppedPause {
  const scripts = loadScripts(redis, keys, TIMING);
  // A key of the wrong type also stops calls: scripts check only that it exists.
  const readState = async () => decode(await unlessMistyped(redis.get(keys.paused), ""));
  const state = () => steps.read(readState);
  const queue = (work: "pause" | "resume") => steps.write(() => changeQueue(redis, keys, work));
  /**
   * Pauses or resumes the queue until it agrees with the key, and resolves to the pause in force. Only another operator's
   * call in between makes it repeat: whichever call touches the queue last has read the key after that.
   */
  const matchQueue = async (): Promise<PauseState | undefined> => {
    for (let known = await state(); ; ) {
      await queue(known ? "pause" : "resume");
      const inForce = await state();
      if ((inForce === undefined) === (known === undefined)) return inForce;
      known = inForce;
    }
  };
  const begin = async (reason?: string): Promise<PauseState> => {
    const at = isoTime(await steps.read(() => redisNowMs(redis)));
    const note: z.infer<typeof PauseNote> = { v: 1, at, ...(reason !== undefined && { reason }) };
    await steps.write(() => scripts.run("pause", undefined, { note: JSON.stringify(note) }));
    return (await matchQueue()) ?? { at };
  };
  const known = () => clock.sleep(PAUSE_KNOWN_MS);
  return {
    state,
    begin,
    known,
    async pause(reason) {
      const inForce = await begin(reason);
      await known();
      return inForce;
    },
    async resume() {
      const ended = await state();
      await queue("resume");
      await steps.write(() => redis.del(keys.paused));
      await matchQueue();
      return ended;
    },
  };
}

async function changeQueue(redis: RedisClient, keys: Keys, work: "pause" | "resume"): Promise<void> {
  const wakes = createWakeQueue(redis, keys);
  const done = wakes[work]().finally(() => wakes.stop());
  await (work === "pause" ? done.catch(ignoreFullMemory) : done);
}

/** Accepts that Redis has no memory left for pausing the queue: the key alone stops all calls. */
function ignoreFullMemory(error: unknown): void {
  if (!isOutOfMemory(error)) throw error;
}

/** Parses a note; one that this version cannot read also pauses. */
function decode(text: string | null): PauseState | undefined {
  if (text === null) return undefined;
  try {
    const { at, reason } = PauseNote.parse(JSON.parse(text));
    return { at, ...(reason !== undefined && { reason }) };
  } catch {
    return { at: new Date(0).toISOString() };
  }
}
