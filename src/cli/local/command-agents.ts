/**
 * Which sub-agents are those of one command. They are known by their ids: another command of the same parent may have given its
 * agents the same names.
 *
 * 1. Events that come before the id of their agent is known are kept, and told when it is.
 */
import type { SpawnReceipt } from "../../producer/spawn.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { AgentView } from "../../shared/protocol/agent.ts";
import type { ProgressEvent } from "../../shared/protocol/reply.ts";

/** So many events are kept while sub-agents start. */
const MOST_EARLY = 100;

/** See the module's header. */
export class CommandAgents {
  /** agent_id → the name that the command gave it. */
  readonly #names = new Map<string, string>();
  readonly #starting = new Map<string, Promise<unknown>>();
  /** Names of agents that may be there: the answer to their spawn was lost. */
  readonly #unknown = new Set<string>();
  readonly #tell: (event: ProgressEvent) => void;
  #early: ProgressEvent[] = [];

  /** `tell` is told of what its agents do. */
  constructor(tell: (event: ProgressEvent) => void) {
    this.#tell = tell;
  }

  /** An agent of this name is being started. */
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

  /** Resolves when every agent whose start has begun is known, or was not started. */
  async started(): Promise<void> {
    await Promise.all(this.#starting.values());
  }

  /** Takes an event of any agent of the parent. */
  hear(event: ProgressEvent): void {
    if (this.#names.has(event.agent_id)) this.#tell(event);
    else if (this.#starting.size > 0 && this.#early.length < MOST_EARLY) this.#early.push(event);
  }

  /** The name that the command gave the agent; undefined: it is another command's. */
  nameOf({ agent_id }: Pick<ProgressEvent, "agent_id">): string | undefined {
    return this.#names.get(agent_id);
  }

  /** Whether it is one of them, or may be one. */
  mayBe({ agent_id, name }: Pick<AgentView, "agent_id" | "name">): boolean {
    return this.#names.has(agent_id) || this.#unknown.has(name);
  }

  #know(agentId: string, name: string): void {
    this.#names.set(agentId, name);
    for (const event of this.#early) if (event.agent_id === agentId) this.#tell(event);
  }
}
