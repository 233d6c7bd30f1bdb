/**
 * Durable loops of other products on Postgres, for comparison: DBOS, with a step for each model call and each tool call, and
 * LangGraph, with a checkpoint before each next step. Both call the model as the naive loop does.
 */
import type Anthropic from "@anthropic-ai/sdk";
import { DBOS } from "@dbos-inc/dbos-sdk";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { LOOKUP, MODEL, promptFor, SYSTEM } from "./work.ts";

/** Name of a peer. */
export type PeerName = "dbos" | "langgraph";

/** Input of a peer. */
export interface PeerSetting {
  client: Anthropic;
  turns: number;
  /** Result of each lookup. */
  output: string;
  postgresUrl: string;
}

/** Each prepares its peer and resolves to a function that runs one task and resolves to its last text. */
export const PEERS: Readonly<Record<PeerName, (setting: PeerSetting) => Promise<() => Promise<string>>>> = {
  dbos,
  langgraph,
};

type Messages = Anthropic.MessageParam[];

const bodyOf = (messages: Messages) => ({
  model: MODEL,
  system: SYSTEM,
  messages,
  tools: [LOOKUP],
  max_tokens: 8_000,
});

const callsOf = ({ content }: Pick<Anthropic.Message, "content">) =>
  content.filter((block) => block.type === "tool_use");

const textOf = ({ content }: Pick<Anthropic.Message, "content">) =>
  content.map((block) => ("text" in block ? block.text : "")).join("");

async function dbos({ client, turns, output, postgresUrl }: PeerSetting): Promise<() => Promise<string>> {
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: postgresUrl, logLevel: "error" });
  const task = DBOS.registerWorkflow(
    async (prompt: string) => {
      const messages: Messages = [{ role: "user", content: prompt }];
      for (;;) {
        const message = await DBOS.runStep(() => client.messages.create(bodyOf(messages)), { name: "call" });
        messages.push({ role: "assistant", content: message.content });
        const calls = callsOf(message);
        if (calls.length === 0) return textOf(message);
        const content: Anthropic.ToolResultBlockParam[] = [];
        for (const { id } of calls) {
          const result = await DBOS.runStep(async () => output, { name: "lookup" });
          content.push({ type: "tool_result", tool_use_id: id, content: result });
        }
        messages.push({ role: "user", content });
      }
    },
    { name: "task" },
  );
  await DBOS.launch();
  return () => task(promptFor(turns));
}

async function langgraph({
  client,
  turns,
  output,
  postgresUrl,
}: PeerSetting): Promise<() => Promise<string>> {
  const State = Annotation.Root({
    messages: Annotation<Messages>({ reducer: (before, more) => before.concat(more), default: () => [] }),
  });
  const lastOf = (messages: Messages) => (messages.at(-1) ?? { content: [] }) as Anthropic.Message;
  const saver = PostgresSaver.fromConnString(postgresUrl);
  await saver.setup();
  const graph = new StateGraph(State)
    .addNode("model", async ({ messages }) => {
      const { content } = await client.messages.create(bodyOf(messages));
      return { messages: [{ role: "assistant" as const, content }] };
    })
    .addNode("tools", ({ messages }) => {
      const content = callsOf(lastOf(messages)).map(({ id }) => ({
        type: "tool_result" as const,
        tool_use_id: id,
        content: output,
      }));
      return { messages: [{ role: "user" as const, content }] };
    })
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) => (callsOf(lastOf(messages)).length > 0 ? "tools" : END))
    .addEdge("tools", "model")
    .compile({ checkpointer: saver });
  return async () => {
    const { messages } = await graph.invoke(
      { messages: [{ role: "user", content: promptFor(turns) }] },
      {
        configurable: { thread_id: crypto.randomUUID() },
        recursionLimit: 3 * turns + 10,
        durability: "sync",
      },
    );
    return textOf(lastOf(messages));
  };
}
