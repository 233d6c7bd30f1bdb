import { tool } from "@langchain/core/tools";
import { createParent } from "subagent-queue";

const parent = createParent({ parentId: "langchain", redisUrl: process.env.REDIS_URL, model: "offline-1" });
const tools = parent.tools().map(({ run, name, description, input_schema: schema }) => tool((input) => run(input), { name, description, schema }));
// Give them to createAgent({ model, tools }) of langchain; here one is called as the agent would.
console.log(await tools.find(({ name }) => name === "task")?.invoke({ prompt: "say hello" }));
await parent.stop();
