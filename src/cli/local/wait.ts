/** Sentences about what runs wait for. */
import type { TaskWait } from "../../producer/task-wait-reasons.ts";
import type { AgentView } from "../../shared/protocol/agent.ts";
import type { PauseState } from "../../shared/redis/pause.ts";
import { plainLine } from "../terminal/text.ts";

/** Returns why the tasks of a command wait. `redis`: the address of its Redis, without a password. */
export function renderWait(wait: Exclude<TaskWait, { for: "tools" }>, redis: string): string {
  switch (wait.for) {
    case "worker":
      return `No worker has been live on ${redis} since ${timeOf(wait.since)}: the runs wait until one joins (subagent-queue worker).`;
    case "resume":
      return renderPause({ at: wait.since, ...(wait.reason !== undefined && { reason: wait.reason }) });
    case "provider":
      return renderProviderWait(wait);
  }
}

/** Returns that no worker is live on the Redis of this address; `what` waits, e.g. `the run waits`. */
export function renderNoWorker(redis: string, what: string): string {
  return `No worker is live on ${redis}: ${what} until one joins (subagent-queue worker).`;
}

/** Returns why a run waits for its provider and since when: the provider may have failed others before, or another one this run. */
export function renderProviderWait(wait: NonNullable<AgentView["provider_wait"]>): string {
  const { provider, reason, since, next_try_at } = wait;
  return `${plainLine(provider)} fails or limits calls (${plainLine(reason)}): the run has waited since ${timeOf(since)}, the next attempt is at ${timeOf(next_try_at)}.`;
}

/** Returns the sentence about all runs of a paused installation. */
export function renderPause(state: PauseState): string {
  return `All runs wait for subagent-queue resume: ${pausedSince(state)}.`;
}

/** Returns the state in words, e.g. `paused since 2026-11-01T12:00:00.000Z (the budget is used up)`. */
export function pausedSince({ at, reason }: PauseState): string {
  return `paused since ${at}${reason === undefined ? "" : ` (${plainLine(reason)})`}`;
}

/** Returns the time of day of an ISO 8601 instant, UTC. */
function timeOf(instant: string): string {
  return `${instant.slice(11, 19)}Z`;
}
