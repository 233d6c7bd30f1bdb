/** Opens a parent with a real worker, and runs a minimal Messages loop in which a model uses the parent's tools. */
import Anthropic from "@anthropic-ai/sdk";
import type { Client } from "../../src/producer/client.ts";
import { answerToolUse, type ParentTool, type ToolResult } from "../../src/producer/model-tools.ts";
import type { Parent, ParentOptions } from "../../src/producer/parent.ts";
import type { WorkerOptions } from "../../src/worker/worker-options.ts";
import { openStage, type Stage, type StageOptions } from "../stage/stage.ts";
import { testClient, testParent } from "./parents.ts";

/** Options of a scene. */
export interface SceneOptions extends StageOptions {
  parent?: Partial<ParentOptions>;
  worker?: Partial<WorkerOptions>;
}

export interface ParentScene {
  readonly installation: Stage;
  readonly client: Client;
  readonly parent: Parent;
  /** The SDK's client for the parent's own model calls, on the same offline model. */
  readonly anthropic: Anthropic;
}

/** Opens an installation with a started worker and a parent; the test's end closes all of it. */
export async function openParentScene(options: SceneOptions = {}): Promise<ParentScene> {
  const installation = await openStage(options);
  await installation.startWorker(options.worker);
  const { prefix, offline } = installation;
  const client = testClient({ prefix, ...(options.timing && { timing: options.timing }) });
  const anthropic = new Anthropic({ apiKey: "offline", baseURL: offline.url, maxRetries: 0 });
  return { installation, client, parent: testParent(client, options.parent), anthropic };
}

/** The state of a conversation after its last answer. */
export interface Conversation {
  messages: Anthropic.MessageParam[];
  /** Every tool result, in order. */
  results: ToolResult[];
  /** Text of the last answer. */
  text: string;
}

/** Continues a conversation until its model calls no more tools. */
export async function converse(
  { anthropic }: ParentScene,
  tools: ParentTool[],
  messages: Anthropic.MessageParam[],
): Promise<Conversation> {
  const results: ToolResult[] = [];
  for (;;) {
    const answer = await anthropic.messages.create({
      model: "offline-1",
      max_tokens: 1_000,
      tools,
      messages,
    });
    messages = [...messages, { role: "assistant", content: answer.content }];
    const calls = answer.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) {
      const text = answer.content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("");
      return { messages, results, text };
    }
    const answers = await Promise.all(calls.map((call) => answerToolUse(tools, call)));
    results.push(...answers);
    messages = [...messages, { role: "user", content: answers }];
  }
}
