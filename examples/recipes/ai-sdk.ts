import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, jsonSchema, stepCountIs, tool } from "ai";
import { createParent } from "subagent-queue";

const parent = createParent({ parentId: "ai-sdk", redisUrl: process.env.REDIS_URL, model: "offline-1" });
const tools = Object.fromEntries(parent.tools().map((t) => [t.name, tool({ ...t, inputSchema: jsonSchema(t.input_schema), execute: (input) => t.run(input) })]));
const model = createAnthropic({ baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1`, apiKey: process.env.ANTHROPIC_API_KEY })("offline-1");
const { text } = await generateText({ model, tools, stopWhen: stepCountIs(5), prompt: "Ask a sub-agent to say hello." });
console.log(text);
await parent.stop();
