/**
 * The sub-agents of one command. They are identified by their ids, because another command of the same parent may have used
 * the same names.
 *
 * 1. Events that arrive before the id of their agent is known are kept, and reported when it is known.
 */
import type { SpawnReceipt } from "../../producer/spawn.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { AgentView } from "../../shared/protocol/agent.ts";
import type { ProgressEvent } from "../../shared/protocol/reply.ts";

/** Number of events that are kept while sub-agents start. */
const MOST_EARLY = 100;

/** The sub-agents of one command, and its filter of their events. */
export class CommandAgents {
  /** agent_id → the name that the command gave it. */
  readonly #names = new Map<string, string>();
  readonly #starting = new Map<string, Promise<unknown>>();
  /** Names of agents that may exist: the answer to their spawn was lost. */
  readonly #unknown = new Set<string>();
  readonly #tell: (event: ProgressEvent) => void;
  #early: ProgressEvent[] = [];

  /** `tell` receives the events of the command's agents. */
  constructor(tell: (event: ProgressEvent) => void) {
    this.#tell = tell;
  }

  /** Registers an agent that is being started under `name`. */
  start(name: string, started: Promise<Pick<SpawnReceipt, "agent_id">>): void {
    const known = started
      .then(
        ({ agent_id }) => this.#know(agent_id, name),
        (error: unknown) => {
          if (error instanceof SubagentError && error.code === "outcome_unknown") this.#unknown.add(name);
        },
      )
      .then(() => {
        this.#starting.delete(name);
        if (this.#starting.size === 0) this.#early = [];
      });
    this.#starting.set(name, known);
  }

  /** Resolves when each agent whose start has begun is known or has failed to start. */
  async started(): Promise<void> {
    await Promise.all(this.#starting.values());
  }

  /** Takes an event of any agent of the parent. */
  hear(event: ProgressEvent): void {
    if (this.#names.has(event.agent_id)) this.#tell(event);
    else if (this.#starting.size > 0 && this.#early.length < MOST_EARLY) this.#early.push(event);
  }

  /** Returns the name that the command gave the agent; undefined: another command started it. */
  nameOf({ agent_id }: Pick<ProgressEvent, "agent_id">): string | undefined {
    return this.#names.get(agent_id);
  }

  /** Returns true if the agent is one of this command's, or may be one. */
  mayBe({ agent_id, name }: Pick<AgentView, "agent_id" | "name">): boolean {
    return this.#names.has(agent_id) || this.#unknown.has(name);
  }

  #know(agentId: string, name: string): void {
    this.#names.set(agentId, name);
    for (const event of this.#early) if (event.agent_id === agentId) this.#tell(event);
  }
}
