/**
 * Follows the live agents of a parent: events tell what they do, a look once a second tells what is true.
 *
 * Owns: which agents are known. Its neighbours: the listener shows it; Redis owns the agents, and looking at them keeps
 * none of them alive.
 *
 * 1. Every agent that a look has shown is told to be over exactly once, also when every event about it was lost.
 * 2. An agent that came and went between two looks is told about if one of its events was heard.
 * 3. A Redis that is away is told about once; the looks go on.
 * 4. What is remembered is bounded: the live agents, and of those that are over the last {@link MOST_OVER}.
 */

import type { Parent } from "../../producer/parent.ts";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { AgentView } from "../../shared/protocol/agent.ts";
import type { ProgressEvent } from "../../shared/protocol/reply.ts";
import { onAbort } from "../../shared/stop-signal.ts";

const LOOK_EVERY_MS = 1_000;
/** Agents that are over are remembered for events that come late. */
const MOST_OVER = 1_000;

/** How long a watch goes on: until `signal` aborts, or no agent has been live for `quietMs`; default: no matter how long. */
export interface WatchOptions {
  clock: Clock;
  signal: AbortSignal;
  quietMs?: number;
}

/** Who is told. */
export interface WatchListener {
  /** A live agent, at every look. */
  agent(view: AgentView, isChanged: boolean): void;
  event(event: ProgressEvent): void;
  /** An agent that has ended; with what is left of its record. */
  ended(view: AgentView): void;
  /** The looks fail, since now. */
  away(problem: string): void;
}

/** Watches as long as the options say. Rejects with what is no passing failure of Redis. */
export async function watchAgents(
  parent: Pick<Parent, "list" | "get" | "events">,
  { clock, signal, quietMs = Number.POSITIVE_INFINITY }: WatchOptions,
  listener: WatchListener,
): Promise<void> {
  const known = new Map<string, AgentView | undefined>();
  const over = new Set<string>();
  const ending = new AbortController();
  let nudge = new AbortController();
  const end = () => {
    ending.abort();
    nudge.abort();
  };
  const hear = async () => {
    for await (const event of parent.events({ signal: ending.signal })) {
      if (over.has(event.agent_id)) continue;
      if (!known.has(event.agent_id)) known.set(event.agent_id, undefined);
      listener.event(event);
      if (!known.get(event.agent_id) || event.type === "ended") nudge.abort();
    }
  };
  const hearing = hear();
  const forget = onAbort(signal, end);
  let isAway = false;
  let liveAtMs = clock.monotonicMs();
  try {
    while (!ending.signal.aborted) {
      nudge = new AbortController();
      try {
        await look(parent, known, over, listener);
        isAway = false;
        if (known.size > 0) liveAtMs = clock.monotonicMs();
        else if (clock.monotonicMs() - liveAtMs >= quietMs) end();
      } catch (error) {
        if (!(error instanceof SubagentError && error.retryable)) throw error;
        if (!isAway) listener.away(messageOf(error));
        isAway = true;
      }
      if (!ending.signal.aborted) await clock.sleep(LOOK_EVERY_MS, nudge.signal);
    }
    await hearing;
  } finally {
    forget();
    ending.abort();
  }
}

async function look(
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
    // Spawned after the list was read: the next look has it.
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
