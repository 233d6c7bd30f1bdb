/**
 * Follows the live agents of a parent: events report their actions, a poll of Redis once a second reports their state.
 *
 * Owns the list of known agents. The listener shows them. Redis owns the agents; a poll keeps none of them alive.
 *
 * 1. Each agent that a poll has found is reported as ended exactly once, even if all its events were lost.
 * 2. An agent that began and ended between two polls is reported if one of its events arrived.
 * 3. An unreachable Redis is reported once; the polls go on.
 * 4. Memory is bounded: it holds the live agents and the last {@link MOST_OVER} ended ones.
 */

import type { Parent } from "../../producer/parent.ts";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { AgentView } from "../../shared/protocol/agent.ts";
import type { ProgressEvent } from "../../shared/protocol/reply.ts";
import { onAbort } from "../../shared/stop-signal.ts";

const POLL_EVERY_MS = 1_000;
/** Number of ended agents that are remembered, because their events may come late. */
const MOST_OVER = 1_000;

/** Options of a watch. It ends when `signal` aborts or no agent has been live for `quietMs` (default: no limit). */
export interface WatchOptions {
  clock: Clock;
  signal: AbortSignal;
  quietMs?: number;
}

/** Receiver of the reports. */
export interface WatchListener {
  /** Called at every poll with each live agent. */
  agent(view: AgentView, isChanged: boolean): void;
  event(event: ProgressEvent): void;
  /** Called when an agent has ended, with its last known record. */
  ended(view: AgentView): void;
  /** Called when the polls begin to fail. */
  away(problem: string): void;
}

/** Watches until the options end it. Rejects with the first error of a poll that is not retryable, or of the events. */
export async function watchAgents(
  parent: Pick<Parent, "list" | "get" | "events">,
  { clock, signal, quietMs = Number.POSITIVE_INFINITY }: WatchOptions,
  listener: WatchListener,
): Promise<void> {
  const known = new Map<string, AgentView | undefined>();
  const over = new Set<string>();
  const ending = new AbortController();
  let pollNow = new AbortController();
  const end = () => {
    ending.abort();
    pollNow.abort();
  };
  const followEvents = async () => {
    for await (const event of parent.events({ signal: ending.signal })) {
      if (over.has(event.agent_id)) continue;
      if (!known.has(event.agent_id)) known.set(event.agent_id, undefined);
      listener.event(event);
      if (!known.get(event.agent_id) || event.type === "ended") pollNow.abort();
    }
  };
  // The polls may go on for days: an error of the events ends them.
  const following = followEvents().catch((error: unknown) => {
    end();
    return { error };
  });
  const forget = onAbort(signal, end);
  let [isAway, liveAtMs] = [false, clock.monotonicMs()];
  try {
    while (!ending.signal.aborted) {
      pollNow = new AbortController();
      try {
        await poll(parent, known, over, listener);
        isAway = false;
        if (known.size > 0) liveAtMs = clock.monotonicMs();
        else if (clock.monotonicMs() - liveAtMs >= quietMs) end();
      } catch (error) {
        if (!(error instanceof SubagentError && error.retryable)) throw error;
        if (!isAway) listener.away(messageOf(error));
        isAway = true;
      }
      if (!ending.signal.aborted) await clock.sleep(POLL_EVERY_MS, pollNow.signal);
    }
    const failure = await following;
    if (failure) throw failure.error;
  } finally {
    forget();
    ending.abort();
  }
}

async function poll(
  parent: Pick<Parent, "list" | "get">,
  known: Map<string, AgentView | undefined>,
  over: Set<string>,
  listener: WatchListener,
): Promise<void> {
  const live = await parent.list();
  for (const view of live) {
    const before = known.get(view.agent_id);
    known.set(view.agent_id, view);
    listener.agent(view, before?.status !== view.status || before.run !== view.run);
  }
  const ids = new Set(live.map((view) => view.agent_id));
  for (const [agentId, before] of known) {
    if (ids.has(agentId)) continue;
    const view = (await recordOf(parent, agentId)) ?? before;
    // The agent was spawned after the list was read: the next poll has it.
    if (view && view.status !== "ended" && view !== before) continue;
    known.delete(agentId);
    over.add(agentId);
    for (const oldest of over) {
      if (over.size <= MOST_OVER) break;
      over.delete(oldest);
    }
    if (view) listener.ended({ ...view, status: "ended" });
  }
}

async function recordOf(parent: Pick<Parent, "get">, agentId: string): Promise<AgentView | undefined> {
  try {
    return await parent.get(agentId);
  } catch (error) {
    if (error instanceof SubagentError && error.code === "unknown_agent") return undefined;
    throw error;
  }
}
