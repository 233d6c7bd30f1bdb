import { resolve } from "node:path";
import { createAnthropicModel, createWorker } from "subagent-queue/worker";

const { REDIS_URL: redisUrl, ANTHROPIC_BASE_URL: baseUrl } = process.env;
const model = createAnthropicModel({ apiKey: "offline", baseUrl });
const worker = createWorker({ redisUrl, model, workspaceRoot: resolve("workspaces") });
await worker.start();
console.log("ready");
process.once("SIGTERM", async () => {
  await worker.stop();
  await model.stop();
});
