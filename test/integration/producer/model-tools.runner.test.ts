/** Guarantee: a refusal is an error result for the SDK's tool runner, and a sentence for a caller's own loop. */
import { expect, test } from "vitest";
import { testClient, testParent } from "../../helpers/parents.ts";

test("a call of a tool runner rejects with the refusal, another one gets its sentence", async () => {
  const tool = testParent(testClient())
    .tools()
    .find(({ name }) => name === "send_agent_message");
  const input = { target_agent_id: "nobody", message: "go" };
  const toolUse = { type: "tool_use" as const, id: "t1", name: "send_agent_message", input };
  await expect(tool?.run(input, { toolUse } as Parameters<typeof tool.run>[1])).rejects.toMatchObject({
    name: "SubagentError",
    code: "unknown_agent",
  });
  expect(await tool?.run(input)).toContain("nobody");
});
