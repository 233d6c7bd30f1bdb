/** A workflow of managed sub-agents, with the same tool calls that a model would make. */
import { type ChannelEntry, createParent, type ParentToolName } from "subagent-queue";
import { setUp } from "./setup.ts";

const ORDERS = "Fetch all orders from API endpoint /orders and save the results";
const USERS = "Query the customer database for active users and save the results";
const saves = (user: string, file_path: string, content: string, text: string) => ({
  match: { user },
  turns: [
    { content: [{ type: "tool_use" as const, name: "write_file", input: { file_path, content } }] },
    { content: [{ type: "text" as const, text }] },
  ],
});
const { client, parentId, stop } = await setUp({
  offline: [
    saves(ORDERS, "orders.json", '[{"id":1},{"id":2}]', "2 orders, saved in orders.json."),
    saves(USERS, "users.json", '[{"name":"Ada"}]', "1 active user, saved in users.json."),
  ],
});
const parent = createParent({ client, parentId });
const tools = new Map(parent.tools().map((tool) => [tool.name, tool]));
const call = async (name: ParentToolName, input: unknown) =>
  console.log(`${name}(${JSON.stringify(input)})\n  → ${await tools.get(name)?.run(input)}`);

// Step 1: spawn two sub-agents.
await call("spawn_sub_agent", { name: "api_collector", description: "Collects data from API A" });
await call("spawn_sub_agent", { name: "db_collector", description: "Queries database B" });

// Step 2: send instructions to both.
await call("send_agent_message", { target_agent_id: "api_collector", message: ORDERS });
await call("send_agent_message", { target_agent_id: "db_collector", message: USERS });

// Step 3: both work in parallel. The parent gets their replies as text for the model's next user message.
const replies: ChannelEntry[] = [];
while (replies.length < 2) {
  const news = await parent.newReplies({ timeout_ms: 60_000 });
  replies.push(...news.entries);
  await news.ack();
}
replies.sort((a, b) => a.agent_id.localeCompare(b.agent_id));
for (const reply of replies)
  console.log(`${reply.agent_id}: ${"summary" in reply ? reply.summary : reply.text}`);

// Step 4: clean up early if needed. These two have already ended.
await call("destroy_sub_agent", { agent_id: "api_collector" });
await call("list_sub_agents", {});

await parent.stop();
await stop();
