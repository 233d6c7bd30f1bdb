/** The document of `show --json` says what the sheet says. */
import { expect, test } from "vitest";
import { type AgentSheet, asJson } from "../../../../src/cli/verbs/show.ts";
import type { AgentRecord } from "../../../../src/shared/protocol/agent.ts";
import { agentOf } from "../../../../src/shared/protocol/keys.ts";

function document(status: AgentRecord["status"], reply: string) {
  const record = {
    ...{ agent_id: "w", name: "Writer", run: 1, created_at: 0, deadline: 0, status },
    spec: { model: "offline-1", limits: { max_turns: 20 } },
  } as AgentRecord;
  const address = agentOf({ tenant: "acme", parentId: "planner" }, "sa-0");
  const nothing = { messages: [], isCut: false, unread: [], timeline: [] };
  return asJson({
    ...{ address, record, ...nothing, reply, files: undefined, transcript: undefined },
  } satisfies AgentSheet);
}

test("the words for a missing summary are no reply of an agent that goes on", () => {
  expect(document("waiting", "(no summary)")).toMatchObject({ status: "waiting", reply: "" });
  expect(document("idle", "so far")).toMatchObject({ reply: "so far" });
  expect(document("ended", "(no summary)")).toMatchObject({ reply: "(no summary)" });
});
