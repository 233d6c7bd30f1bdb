/**
 * The measured workers, each in its own process: the product's worker (`product`), and a bare BullMQ worker that runs the
 * naive loop and commits no step (`bullmq`).
 */
import Anthropic from "@anthropic-ai/sdk";
import { Worker } from "bullmq";
import { createAnthropicModel, createWorker, defineTool } from "subagent-queue/worker";
import { z } from "zod";
import { LOOKUP, lookupOutput, MODEL, meter, SYSTEM } from "./work.ts";

/** Start message of a worker process. */
export interface WorkerOrder {
  kind: "product" | "bullmq";
  redisUrl: string;
  baseUrl: string;
  workspaceRoot: string;
  concurrency: number;
  outputBytes: number;
}

let used = meter();
let stop = async () => {};

process.on("message", async (message: { start: WorkerOrder } | "meter" | "used" | "memory" | "stop") => {
  if (typeof message === "object") {
    stop =
      message.start.kind === "product" ? await startProduct(message.start) : await startBullmq(message.start);
    process.send?.({ ready: true });
  } else if (message === "meter") {
    globalThis.gc?.();
    used = meter();
    process.send?.({ ready: true });
  } else if (message === "used") process.send?.(used());
  else if (message === "memory") {
    globalThis.gc?.();
    const { rss, heapUsed } = process.memoryUsage();
    process.send?.({ rssMb: rss / 2 ** 20, heapMb: heapUsed / 2 ** 20 });
  } else {
    await stop();
    process.exit();
  }
});

async function startProduct({ redisUrl, baseUrl, workspaceRoot, concurrency, outputBytes }: WorkerOrder) {
  const output = lookupOutput(outputBytes);
  const lookup = defineTool({
    name: LOOKUP.name,
    description: LOOKUP.description,
    input: z.object({ q: z.string(), n: z.number().int() }),
    run: async () => output,
  });
  const model = createAnthropicModel({ apiKey: "bench", baseUrl });
  const worker = createWorker({ redisUrl, model, tools: [lookup], workspaceRoot, concurrency });
  await worker.start();
  return async () => {
    await worker.stop();
    await model.stop();
  };
}

/** Starts a bare BullMQ worker. One job is one task; only this process has its messages. */
async function startBullmq({ redisUrl, baseUrl, concurrency, outputBytes }: WorkerOrder) {
  const client = new Anthropic({ baseURL: baseUrl, apiKey: "bench", maxRetries: 0 });
  const output = lookupOutput(outputBytes);
  const run = async ({ data }: { data: { prompt: string } }) => {
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: data.prompt }];
    for (;;) {
      const body = { model: MODEL, system: SYSTEM, messages, tools: [LOOKUP], max_tokens: 8_000 };
      const { content } = await client.messages.create(body);
      messages.push({ role: "assistant", content });
      const calls = content.filter((block) => block.type === "tool_use");
      if (calls.length === 0) return content.map((block) => ("text" in block ? block.text : "")).join("");
      const results = calls.map(({ id }) => ({
        type: "tool_result" as const,
        tool_use_id: id,
        content: output,
      }));
      messages.push({ role: "user", content: results });
    }
  };
  const { port } = new URL(redisUrl);
  const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
  const worker = new Worker("bench", run, { connection, concurrency });
  await worker.waitUntilReady();
  return () => worker.close();
}

process.on("disconnect", () => process.exit());
