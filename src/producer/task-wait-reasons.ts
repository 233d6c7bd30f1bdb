/**
 * Why the tasks of one client are pending: for want of a live worker, of a worker with their tools, or of their provider.
 *
 * Owns: who waits, and when Redis is asked. Its neighbours: `task.ts` decides what a wait means for a task, the workers'
 * announcements and the agents' records hold the truth.
 *
 * 1. A task without a live worker hears of it within two looks, {@link LOOK_MS} apart; it is told again only of a change.
 * 2. That no worker is live is logged once, until one is, unless all callers listen; a client without a logger warns on
 *    the process.
 *
 * A look costs the same whatever waits: the directory once, and the records of {@link MOST_RECORDS} tasks in turn. A look
 * that fails says nothing. Nothing is asked while no task waits.
 */

import type { Clock } from "../shared/clock.ts";
import { SubagentError } from "../shared/errors.ts";
import type { Logger } from "../shared/logger.ts";
import { type AgentRecord, isoTime, viewOf } from "../shared/protocol/agent.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { names } from "../shared/redis/codec.ts";
import type { Installation } from "../shared/redis/installation.ts";
import type { StopSignal } from "../shared/stop-signal.ts";
import type { RedisCall } from "./redis-call.ts";

/** Time between two looks. */
export const LOOK_MS = 2_000;
const MOST_RECORDS = 32;
const NO_WORKER =
  "No worker is live on this Redis and prefix: tasks wait until one joins (subagent-queue worker).";

/**
 * What a task waits for. `worker`: none is live, seen `since`; `tools`: no worker has all of them; `provider`: it fails or
 * limits the calls of the run, which asks again at `next_try_at`. Times are ISO 8601.
 */
export type TaskWait =
  | { for: "worker"; since: string }
  | { for: "tools"; tools: readonly string[] }
  | { for: "provider"; provider: string; reason: string; since: string; next_try_at: string };

/** Told what a task waits for; undefined: for nothing any more. May not throw. */
export type OnWait = (wait: TaskWait | undefined) => void;

/** See the module's header. */
export interface TaskWaits {
  /**
   * Tells `told` what the task of this agent waits for; the function it returns ends that. `isHeard`: its caller listens,
   * and needs no line in the log.
   */
  watch(address: AgentAddress, told: OnWait, isHeard: boolean): () => void;
}

/** What the looks need. */
export interface TaskWaitParts extends Pick<Installation, "store" | "workers"> {
  clock: Clock;
  /** Undefined: the process warns. */
  logger: Logger | undefined;
  call<T>(work: (call: RedisCall) => Promise<T>): Promise<T>;
}

interface Watched {
  readonly address: AgentAddress;
  readonly told: OnWait;
  readonly isHeard: boolean;
  wait: TaskWait | undefined;
}

/** The waits of one client. */
export function watchTaskWaits(parts: TaskWaitParts): TaskWaits {
  const { clock } = parts;
  const watched = new Set<Watched>();
  let timer: { cancel(): void } | undefined;
  let deserted: TaskWait | undefined;
  let isLogged = false;

  const look = async () => {
    const asked = [...watched].slice(0, MOST_RECORDS);
    const seen = await parts.call(({ read }) => read(() => askedOf(parts, asked))).catch(() => undefined);
    if (seen) {
      deserted = seen.hasWorkers ? undefined : (deserted ?? desertedSince(clock.now()));
      const isNews = deserted && !isLogged && [...watched].some(({ isHeard }) => !isHeard);
      if (isNews) warn(parts);
      isLogged = deserted !== undefined && (isLogged || isNews === true);
      for (const each of watched) if (deserted || each.wait?.for === "worker") tell(each, deserted);
      for (const each of deserted ? [] : asked) tell(each, waitOf(seen.records.get(each)));
      // Those that were asked go to the end of the line.
      for (const each of asked) if (watched.delete(each)) watched.add(each);
    }
    timer?.cancel();
    timer = watched.size > 0 ? clock.timeout(LOOK_MS, () => void look()) : undefined;
  };
  return {
    watch(address, told, isHeard) {
      const each: Watched = { address, told, isHeard, wait: undefined };
      watched.add(each);
      timer ??= clock.timeout(LOOK_MS, () => void look());
      return () => {
        watched.delete(each);
        if (watched.size > 0) return;
        timer?.cancel();
        timer = deserted = undefined;
      };
    },
  };
}

/** The records are read only where a worker may have done something about them. */
async function askedOf({ store, workers }: TaskWaitParts, asked: readonly Watched[]) {
  const hasWorkers = (await workers.list()).length > 0;
  // One record that cannot be read says nothing of the others.
  const recordOf = ({ address }: Watched) => store.record(address).catch(() => undefined);
  const records = hasWorkers ? await Promise.all(asked.map(recordOf)) : [];
  return { hasWorkers, records: new Map(asked.map((each, i) => [each, records[i]])) };
}

function waitOf(record: AgentRecord | undefined): TaskWait | undefined {
  if (!record) return undefined;
  const { status, provider_wait } = viewOf(record);
  if (status === "waiting_for_tools") return { for: "tools", tools: names.decode(record.needs_tools) };
  return provider_wait && { for: "provider", ...provider_wait };
}

/** `next_try_at` of one wait for a provider moves on with each try. */
function isSame(a: TaskWait | undefined, b: TaskWait | undefined): boolean {
  const told = (wait: TaskWait | undefined) => wait && JSON.stringify({ ...wait, next_try_at: undefined });
  return told(a) === told(b);
}

function tell(each: Watched, wait: TaskWait | undefined): void {
  if (isSame(each.wait, wait)) return;
  each.wait = wait;
  each.told(wait);
}

function desertedSince(atMs: number): TaskWait {
  return { for: "worker", since: isoTime(atMs) };
}

function warn({ logger }: TaskWaitParts): void {
  if (logger) logger.warn(NO_WORKER);
  else process.emitWarning(NO_WORKER, { code: "SUBAGENT_NO_WORKER" });
}

/** What a caller wants of its waiting. */
interface WaitWish {
  onWait?: OnWait | undefined;
  wait_for_worker_ms?: number | undefined;
}

/** Who hears of a task's waiting, and how it ends. */
interface TaskWatch {
  tellHandle: OnWait | undefined;
  cancel(reason: unknown): void;
  over: StopSignal;
}

/** Watches one task until it is over; ends it with `no_worker` when none was live for as long as it may wait. */
export function watchTask(
  { taskWaits, clock }: { taskWaits: TaskWaits; clock: Clock },
  address: AgentAddress,
  { onWait, wait_for_worker_ms }: WaitWish,
  { tellHandle, cancel, over }: TaskWatch,
): void {
  let patience: { cancel(): void } | undefined;
  const told: OnWait = (wait) => {
    patience?.cancel();
    if (wait?.for === "worker" && wait_for_worker_ms !== undefined)
      patience = clock.timeout(wait_for_worker_ms, () => cancel(noWorker(wait_for_worker_ms)));
    tellHandle?.(wait);
    onWait?.(wait);
  };
  const forget = taskWaits.watch(address, told, onWait !== undefined);
  over.onStop(() => {
    patience?.cancel();
    forget();
  });
}

/** Whether a task ended since no worker was live for too long. */
export function isNoWorker(error: unknown): boolean {
  return error instanceof SubagentError && error.code === "no_worker";
}

function noWorker(waitedMs: number): SubagentError {
  return new SubagentError(
    "no_worker",
    `No worker was live for ${waitedMs} ms, and the sub-agent was destroyed: start one (subagent-queue worker), and call again, with another request_key where you gave one.`,
    { wait_for_worker_ms: waitedMs },
  );
}
