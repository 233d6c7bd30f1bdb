import { resolve } from "node:path";
import { createAnthropicModel, createWorker, defineTool, type SubagentWorker } from "subagent-queue/worker";
import { z } from "zod";

const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  input: z.object({ a: z.number(), b: z.number() }),
  run: async ({ a, b }) => String(a + b),
});
const { REDIS_URL: redisUrl = "", ANTHROPIC_BASE_URL: baseUrl } = process.env;
const model = createAnthropicModel({ apiKey: "offline", baseUrl });
const worker: SubagentWorker = createWorker({
  redisUrl,
  model,
  tools: [add],
  workspaceRoot: resolve("workspaces"),
});
await worker.start();
console.log("ready");
process.once("SIGTERM", async () => {
  await worker.stop();
  await model.stop();
});
