/**
 * The reasons for which the tasks of one client wait: no live worker, a pause, no worker with their tools, or their provider.
 *
 * Owns: the set of waiting tasks, and when Redis is read. Its neighbours: `task.ts` decides the effect of a wait on a task;
 * the workers' announcements, the pause and the agents' records are the source of truth.
 *
 * 1. A task without a live worker is notified within two checks, {@link CHECK_MS} apart; it is notified again only of a change.
 * 2. "No worker is live" is logged once until a worker is live, unless all callers have a callback; a client without a logger
 *    emits a process warning.
 * 3. A task whose run a worker holds never ends with `no_worker`, whatever the announcements say.
 *
 * The cost of a check does not grow with the number of workers and tasks: it reads whether a worker is live, the pause, and the
 * records of {@link MOST_RECORDS} tasks in turn. A failed check notifies no task. The client reads nothing while no task waits.
 */

import type { Clock } from "../shared/clock.ts";
import { SubagentError } from "../shared/errors.ts";
import type { Logger } from "../shared/logger.ts";
import { type AgentRecord, isoTime, viewOf } from "../shared/protocol/agent.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import { names } from "../shared/redis/codec.ts";
import type { Installation } from "../shared/redis/installation.ts";
import type { PauseState } from "../shared/redis/pause.ts";
import type { StopSignal } from "../shared/stop-signal.ts";
import type { RunRead } from "./redis-call.ts";

/** Time between two checks. */
export const CHECK_MS = 2_000;
const MOST_RECORDS = 32;
const NO_WORKER =
  "No worker is live on this Redis and prefix: tasks wait until one joins (subagent-queue worker).";

/**
 * The reason for which a task waits. `worker`: none has been live since `since`; `resume`: an operator has paused the
 * installation, for `reason`; `tools`: no worker has all of them; `provider`: it fails or limits the calls of the run, which has
 * waited since `since` and retries at `next_try_at`. Times are ISO 8601.
 */
export type TaskWait =
  | { for: "worker"; since: string }
  | { for: "resume"; since: string; reason?: string }
  | { for: "tools"; tools: readonly string[] }
  | { for: "provider"; provider: string; reason: string; since: string; next_try_at: string };

/** Receives the reason for which a task waits; undefined: it no longer waits. Must not throw. */
export type OnWait = (wait: TaskWait | undefined) => void;

/** See the module's header. */
export interface TaskWaits {
  /**
   * Calls `told` with the reason for which the task of this agent waits; the returned function ends the watch. `hasCallback`:
   * the caller has its own callback and needs no line in the log.
   */
  watch(address: AgentAddress, told: OnWait, hasCallback: boolean): () => void;
  /** Resolves with whether a worker may hold the run of this agent: true also if Redis does not answer. */
  mayBeHeld(address: AgentAddress): Promise<boolean>;
}

/** Dependencies of the checks. */
export interface TaskWaitParts extends Pick<Installation, "store" | "workers" | "pause"> {
  clock: Clock;
  /** Undefined: emits a process warning instead. */
  logger: Logger | undefined;
  read: RunRead;
}

interface Watched {
  readonly address: AgentAddress;
  readonly told: OnWait;
  readonly hasCallback: boolean;
  wait: TaskWait | undefined;
}

/** Creates the task waits of one client. */
export function watchTaskWaits(parts: TaskWaitParts): TaskWaits {
  const { clock } = parts;
  const watched = new Set<Watched>();
  let timer: { cancel(): void } | undefined;
  let noWorkerWait: TaskWait | undefined;
  let isLogged = false;

  const checkTasks = async () => {
    const asked = [...watched].slice(0, MOST_RECORDS);
    const seen = await parts.read(() => askedOf(parts, asked)).catch(() => undefined);
    if (seen) {
      noWorkerWait = seen.hasWorkers ? undefined : (noWorkerWait ?? noWorkerSince(clock.now()));
      const isNews = noWorkerWait && !isLogged && [...watched].some(({ hasCallback }) => !hasCallback);
      if (isNews) warn(parts);
      isLogged = noWorkerWait !== undefined && (isLogged || isNews === true);
      const waitOfAll = noWorkerWait ?? pauseWaitOf(seen.paused);
      for (const each of watched) if (waitOfAll || isOfAll(each.wait)) tell(each, waitOfAll);
      for (const each of waitOfAll ? [] : asked)
        if (watched.has(each)) tell(each, waitOf(seen.records.get(each)));
      // The checked tasks go to the end of the queue.
      for (const each of asked) if (watched.delete(each)) watched.add(each);
    }
    timer?.cancel();
    timer = watched.size > 0 ? clock.timeout(CHECK_MS, () => void checkTasks()) : undefined;
  };
  return {
    watch(address, told, hasCallback) {
      const each: Watched = { address, told, hasCallback, wait: undefined };
      watched.add(each);
      timer ??= clock.timeout(CHECK_MS, () => void checkTasks());
      return () => {
        watched.delete(each);
        if (watched.size > 0) return;
        timer?.cancel();
        timer = noWorkerWait = undefined;
      };
    },
    mayBeHeld: (address) => parts.read(() => parts.store.isHeld(address)).catch(() => true),
  };
}

/** Reads whether a worker is live and the pause; reads the tasks' records only if they could say anything else. */
async function askedOf({ store, workers, pause }: TaskWaitParts, asked: readonly Watched[]) {
  const [hasWorkers, paused] = await Promise.all([workers.isAnyLive(), pause.state()]);
  // One unreadable record must not hide the others.
  const recordOf = ({ address }: Watched) => store.record(address).catch(() => undefined);
  const records = hasWorkers && !paused ? await Promise.all(asked.map(recordOf)) : [];
  return { hasWorkers, paused, records: new Map(asked.map((each, i) => [each, records[i]])) };
}

/** Returns what every run waits for while the installation is paused; undefined while it is not. */
export function pauseWaitOf(
  paused: PauseState | undefined,
): Extract<TaskWait, { for: "resume" }> | undefined {
  if (!paused) return undefined;
  const { at: since, reason } = paused;
  return { for: "resume", since, ...(reason !== undefined && { reason }) };
}

/** Returns true for a wait that all tasks of the client share. */
function isOfAll(wait: TaskWait | undefined): boolean {
  return wait?.for === "worker" || wait?.for === "resume";
}

function waitOf(record: AgentRecord | undefined): TaskWait | undefined {
  if (!record) return undefined;
  const { status, provider_wait } = viewOf(record);
  if (status === "waiting_for_tools") return { for: "tools", tools: names.decode(record.needs_tools) };
  return provider_wait && { for: "provider", ...provider_wait };
}

/** Compares two waits without `next_try_at`, which changes with each retry of one provider wait. */
function isSame(a: TaskWait | undefined, b: TaskWait | undefined): boolean {
  const told = (wait: TaskWait | undefined) => wait && JSON.stringify({ ...wait, next_try_at: undefined });
  return told(a) === told(b);
}

function tell(each: Watched, wait: TaskWait | undefined): void {
  if (isSame(each.wait, wait)) return;
  each.wait = wait;
  each.told(wait);
}

function noWorkerSince(atMs: number): TaskWait {
  return { for: "worker", since: isoTime(atMs) };
}

function warn({ logger }: TaskWaitParts): void {
  if (logger) logger.warn(NO_WORKER);
  else process.emitWarning(NO_WORKER, { code: "SUBAGENT_NO_WORKER" });
}

/** The caller's options for the wait of a task. */
interface TaskWaitOptions {
  onWait?: OnWait | undefined;
  wait_for_worker_ms?: number | undefined;
}

/** The handle's callback, and the two ways in which a watched task ends. */
interface TaskWatch {
  tellHandle: OnWait | undefined;
  cancel(reason: unknown): void;
  over: StopSignal;
}

/**
 * Watches one task until it is over; ends it with `no_worker` if no worker was live for `wait_for_worker_ms` and none holds
 * its run.
 */
export function watchTask(
  { taskWaits, clock }: { taskWaits: TaskWaits; clock: Clock },
  address: AgentAddress,
  { onWait, wait_for_worker_ms }: TaskWaitOptions,
  { tellHandle, cancel, over }: TaskWatch,
): void {
  let noWorkerTimer: { cancel(): void } | undefined;
  let current: TaskWait | undefined;
  const endUnlessHeld = async (waited: TaskWait, maxMs: number) => {
    const mayBeHeld = await taskWaits.mayBeHeld(address);
    if (current !== waited) return;
    if (!mayBeHeld) return cancel(noWorker(maxMs));
    noWorkerTimer = clock.timeout(CHECK_MS, () => void endUnlessHeld(waited, maxMs));
  };
  const told: OnWait = (wait) => {
    noWorkerTimer?.cancel();
    current = wait;
    if (wait?.for === "worker" && wait_for_worker_ms !== undefined)
      noWorkerTimer = clock.timeout(wait_for_worker_ms, () => void endUnlessHeld(wait, wait_for_worker_ms));
    tellHandle?.(wait);
    onWait?.(wait);
  };
  const forget = taskWaits.watch(address, told, onWait !== undefined);
  over.onStop(() => {
    noWorkerTimer?.cancel();
    current = undefined;
    forget();
  });
}

/** Returns whether a task ended because no worker was live for too long. */
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

/** Returns the error of a task whose agent may go on. Only `no_worker` says that it was destroyed; other errors stay as they are. */
export function asUndestroyed(error: unknown, agentId: string): unknown {
  if (!(error instanceof SubagentError && isNoWorker(error))) return error;
  const { wait_for_worker_ms } = error.details;
  return new SubagentError(
    "no_worker",
    `No worker was live for ${wait_for_worker_ms} ms, and Redis did not confirm the end of the sub-agent "${agentId}", which may run later: destroy it, or call again with the same request_key to wait for it.`,
    { wait_for_worker_ms, agent_id: agentId },
    error,
  );
}
