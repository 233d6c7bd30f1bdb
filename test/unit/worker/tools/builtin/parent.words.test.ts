import { expect, test } from "vitest";
import { interimWith, sendAgentMessageTool } from "../../../../../src/worker/tools/builtin/parent.ts";
import { openScene } from "../scene.ts";

async function send(target_agent_id: string, message: string) {
  const told: string[] = [];
  const tellParent = (text: string) => void told.push(interimWith(undefined, text));
  const context = { ...(await openScene()).context(), tellParent };
  const result = await sendAgentMessageTool().run({ target_agent_id, message }, context);
  return { result, told };
}

test("the parent is one in whatever letters, and no other agent is", async () => {
  expect(await send(" Parent", "found it")).toEqual({
    result: "Delivered to your parent.",
    told: ["found it"],
  });
  await expect(send("sub-agent-2", "found it")).rejects.toThrow("You can only write to your parent");
});

test("blanks are no message", async () => {
  await expect(send("parent", " \n ")).rejects.toThrow("The message is empty");
});
