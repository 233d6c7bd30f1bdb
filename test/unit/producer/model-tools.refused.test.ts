/** Guarantee: a model is told what is wrong with an input by the names that the tool has given it. */
import { expect, test } from "vitest";
import { createClient } from "../../../src/producer/client.ts";
import { createParent } from "../../../src/producer/parent.ts";

test.for([
  [" ", /^send_agent_message refused, nothing was done: message: write what/],
  ["x".repeat(300 * 1024), /^send_agent_message refused, nothing was done: message: at most 256 KB/],
] as const)("a message that no agent can get is refused by its name", async ([message, told]) => {
  const parent = createParent({
    client: createClient({ redisUrl: "redis://127.0.0.1:1" }),
    parentId: "planner-7",
  });
  const [tool] = parent.tools(["send_agent_message"]);
  expect(tool?.input_schema.properties).toMatchObject({ message: { type: "string" } });
  expect(await tool?.run({ target_agent_id: "writer", message })).toMatch(told);
});
