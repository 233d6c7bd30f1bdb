/**
 * The loops that the product is compared with, each in its own process. Not durable: the plain SDK (`naive`, `naive-stream`),
 * the SDK over `undici.request` (`floor`), the AI SDK (`ai-sdk`). Durable: other products (`peers.ts`).
 */
import { createAnthropic } from "@ai-sdk/anthropic";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, stepCountIs, tool } from "ai";
import { request } from "undici";
import { z } from "zod";
import type { PeerName } from "./peers.ts";
import {
  checkSummary,
  LOOKUP,
  lookupOutput,
  type Measurement,
  MODEL,
  meter,
  promptFor,
  type Size,
  SYSTEM,
  sideBySide,
} from "./work.ts";

/** Name of a loop. */
export type LoopName = "naive" | "naive-stream" | "floor" | "ai-sdk" | PeerName;

interface Order {
  loop: LoopName;
  baseUrl: string;
  size: Measurement;
  /** Only for loops that use Postgres. */
  postgresUrl?: string;
}

process.on("message", async ({ loop, baseUrl, size, postgresUrl = "" }: Order) => {
  const run = await runnerOf(loop, baseUrl, size, postgresUrl);
  await sideBySide({ ...size, tasks: size.warmUp }, run);
  const used = meter();
  await sideBySide(size, run);
  process.send?.(used());
});

async function runnerOf(
  loop: LoopName,
  baseUrl: string,
  size: Size,
  postgresUrl: string,
): Promise<() => Promise<void>> {
  if (loop === "ai-sdk") return aiSdk(baseUrl, size);
  if (loop !== "dbos" && loop !== "langgraph") return messagesLoop(loop, baseUrl, size);
  const { PEERS } = await import("./peers.ts");
  const client = new Anthropic({ baseURL: baseUrl, apiKey: "bench", maxRetries: 0 });
  const output = lookupOutput(size.outputBytes);
  const task = await PEERS[loop]({ client, turns: size.turns, output, postgresUrl });
  return async () => checkSummary(await task());
}

/** Creates the simplest agent loop: call, run tools, repeat. */
function messagesLoop(loop: LoopName, baseURL: string, { turns, outputBytes }: Size): () => Promise<void> {
  const fetch = loop === "floor" ? undiciFetch : undefined;
  const client = new Anthropic({ baseURL, apiKey: "bench", maxRetries: 0, ...(fetch && { fetch }) });
  const output = lookupOutput(outputBytes);
  return async () => {
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: promptFor(turns) }];
    for (;;) {
      const body = { model: MODEL, system: SYSTEM, messages, tools: [LOOKUP], max_tokens: 8_000 };
      const message =
        loop === "naive-stream"
          ? await client.messages.stream(body).finalMessage()
          : await client.messages.create(body);
      messages.push({ role: "assistant", content: message.content });
      const calls = message.content.filter((block) => block.type === "tool_use");
      if (calls.length === 0)
        return checkSummary(message.content.map((b) => ("text" in b ? b.text : "")).join(""));
      messages.push({
        role: "user",
        content: calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: output })),
      });
    }
  };
}

/** A minimal `fetch` for the SDK. */
const undiciFetch: typeof fetch = async (url, init) => {
  const { statusCode, headers, body } = await request(String(url), {
    method: "POST",
    headers: Object.fromEntries(new Headers(init?.headers)),
    body: String(init?.body),
  });
  const type = String(headers["content-type"]);
  return new Response(await body.text(), { status: statusCode, headers: { "content-type": type } });
};

function aiSdk(baseUrl: string, { turns, outputBytes }: Size): () => Promise<void> {
  const model = createAnthropic({ baseURL: `${baseUrl}/v1`, apiKey: "bench" })(MODEL);
  const output = lookupOutput(outputBytes);
  const lookup = tool({
    description: LOOKUP.description,
    inputSchema: z.object({ q: z.string(), n: z.number().int() }),
    execute: async () => output,
  });
  return async () => {
    const { text } = await generateText({
      model,
      system: SYSTEM,
      prompt: promptFor(turns),
      tools: { lookup },
      stopWhen: stepCountIs(turns + 1),
      maxOutputTokens: 8_000,
      maxRetries: 0,
    });
    checkSummary(text);
  };
}

process.send?.({ ready: true });
process.on("disconnect", () => process.exit());
