/** A model is the parent. The SDK's tool runner drives it; the `agent` tool gives work to a sub-agent. */
import Anthropic from "@anthropic-ai/sdk";
import { createParent } from "subagent-queue";
import { SAMPLE, setUp } from "./setup.ts";

const PROMPT = "Which testing framework does this project use?";
const { client, parentId, model, apiKey, baseURL, stop } = await setUp({
  opens: SAMPLE,
  // The scripted answers of the parent's model; the sub-agent gets answers by the offline model's rules.
  offline: {
    match: { user: "Prepare the release" },
    turns: [
      {
        content: [
          { type: "text", text: "I will have a sub-agent look that up." },
          {
            type: "tool_use",
            name: "agent",
            input: { prompt: PROMPT, tool_allowlist: ["read_file", "glob", "grep", "browse"] },
          },
        ],
      },
      { content: [{ type: "text", text: "Now I know how to run the tests." }] },
    ],
  },
});
const parent = createParent({ client, parentId });
const anthropic = new Anthropic({ apiKey, baseURL });

const runner = anthropic.beta.messages.toolRunner({
  thread: false,
  model,
  max_tokens: 2_000,
  tools: parent.tools(["agent"]),
  messages: [{ role: "user", content: "Prepare the release: find out how this project is tested." }],
});
for await (const message of runner) {
  for (const block of message.content) if (block.type === "text") console.log(`parent: ${block.text}`);
}
// In the parent's transcript the whole investigation is one tool call and one text.
for (const { role, content } of runner.params.messages) {
  if (role !== "user" || typeof content === "string") continue;
  for (const block of content) if (block.type === "tool_result") console.log(`agent: ${block.content}`);
}

await parent.stop();
await stop();
