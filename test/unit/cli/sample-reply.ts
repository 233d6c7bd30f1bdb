import type { Reply } from "../../../src/shared/protocol/reply.ts";

/** A reply that succeeded, with whatever a test wants to be different. */
export function sampleReply(changes: Partial<Reply> = {}): Reply {
  return {
    reply_id: "sa-000000000000000000000001.1",
    parent_id: "cli",
    agent_id: "testing_framework",
    name: "Testing framework",
    run: 1,
    kind: "reply",
    status: "succeeded",
    stop_reason: "end_turn",
    agent_status: "ended",
    message_ids: ["m-1"],
    created_at: "2026-11-10T00:00:00.000Z",
    summary: "It uses vitest.",
    truncated: false,
    turns: 3,
    tokens: 4_812,
    usage: {
      input_tokens: 4_000,
      output_tokens: 812,
      cache_read_input_tokens: 0,
      cache_creation_input_tokens: 0,
    },
    cost_usd: 0.0123,
    tools_called: { glob: 1, read_file: 2 },
    alerts: [],
    duration_ms: 1_234,
    model: "offline-1",
    ...changes,
  };
}
