import { expect, test } from "vitest";
import { type AgentSheet, renderSheet } from "../../../../src/cli/verbs/show.ts";
import type { AgentRecord } from "../../../../src/shared/protocol/agent.ts";
import { agentOf } from "../../../../src/shared/protocol/keys.ts";

test("the names of an agent's files cannot move the cursor or turn the text around", () => {
  const record = {
    ...{ agent_id: "w", name: "W", status: "idle", run: 1, created_at: 0 },
    spec: { model: "offline-1", limits: { max_turns: 20 } },
  } as AgentRecord;
  const sheet: AgentSheet = {
    ...{ record, address: agentOf({ tenant: "default", parentId: "cli" }, "sa-0"), messages: [], unread: [] },
    ...{ isCut: false, reply: "", timeline: [], transcript: undefined },
    files: [{ path: "a\u001b[2J\u202eb\n.txt", size_bytes: 2_048 }],
  };
  const lines = renderSheet(sheet, undefined, (_style, text) => text);
  expect(lines).toContain("  ab .txt  2,048 bytes");
});
