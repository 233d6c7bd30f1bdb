import type { AgentView } from "../../../src/shared/protocol/agent.ts";

/** An agent that waits for its first message, with whatever a test wants to be different. */
export function sampleAgent(changes: Partial<AgentView> = {}): AgentView {
  return {
    agent_id: "data_collector",
    name: "Data Collector",
    status: "idle",
    created_at: "1970-01-01T00:00:00.000Z",
    run: 0,
    limits: { max_turns: 20, max_tokens: 8_000, max_duration_ms: 1_800_000 },
    model: "offline-1",
    keep_alive: false,
    ...changes,
  };
}
