/**
 * The parent's calls as tools for its model: for the SDK's tool runner, or for the caller's own loop on the Messages API.
 *
 * 1. A refusal is a sentence for the model, never a failure of the loop. Only cancellation rejects.
 * 2. Limits are the operator's and the profile's: no input can set them. The tool checks the form of an input, the call that
 *    it makes checks the rest.
 */
import { z } from "zod";
import { messageOf, SubagentError, withoutKey } from "../shared/errors.ts";
import type { AgentView } from "../shared/protocol/agent.ts";
import { JsonObject } from "../shared/protocol/content.ts";
import { MessageText } from "../shared/protocol/message.ts";
import { clip } from "../shared/protocol/text.ts";
import { answerOrSend, destroyAgent, listAgents, viewAgent, withAgent } from "./agents.ts";
import { nullsLeftOut, readInput } from "./input.ts";
import { type NewReplies, newRepliesOf } from "./model-replies.ts";
import { asQuestion, asToolResult, notesAfter, shownError } from "./model-text.ts";
import type { ParentContext } from "./parent-context.ts";
import { spawn } from "./spawn.ts";
import { task } from "./task.ts";
import { fenced } from "./text-boundary.ts";

const definitionName = z.string().optional();
const agentId = z.string().describe("As spawn_sub_agent returned it");

const outputSchema = JsonObject.optional().describe(
  "JSON Schema that the final answer must fit; omit for prose",
);

const files = z
  .array(z.strictObject({ path: z.string(), content: z.string() }))
  .optional()
  .describe("Text files for its workspace");

/** The input schemas, by tool name. */
export const TOOL_INPUTS = {
  spawn_sub_agent: z.strictObject({
    name: z.string().describe('Display name; the agent_id is made from it, e.g. "data_collector"'),
    description: z.string().optional().describe("What it is for, in a few words"),
    agent: definitionName,
    output_schema: outputSchema,
  }),
  send_agent_message: z.strictObject({
    target_agent_id: agentId,
    message: MessageText.describe("Complete instructions: it knows nothing of this conversation"),
  }),
  list_sub_agents: z.strictObject({}),
  check_sub_agent: z.strictObject({ agent_id: agentId }),
  destroy_sub_agent: z.strictObject({ agent_id: agentId }),
  task: z.strictObject({
    prompt: z.string().describe("The whole task: it knows nothing of this conversation"),
    agent: definitionName,
    output_schema: outputSchema,
    files,
  }),
  agent: z.strictObject({
    prompt: z.string().describe("The whole task: it knows nothing of this conversation"),
    agent: definitionName,
    tool_allowlist: z.array(z.string()).optional().describe("Exactly these tools; omit for all it may have"),
    model: z.string().optional().describe("Omit for your own"),
    output_schema: outputSchema,
  }),
} as const;

/** A tool of the parent's model. */
export type ParentToolName = keyof typeof TOOL_INPUTS;

/** Descriptions of the tools for the model. */
const TOOL_DESCRIPTIONS: Record<ParentToolName, string> = {
  spawn_sub_agent:
    "Create a sub-agent with a conversation of its own. It waits for send_agent_message. At most 10 live at a time.",
  send_agent_message:
    "Give a sub-agent its instructions, a further message, or the answer it waits for. It works in the background; its final reply is forwarded to you.",
  list_sub_agents: "List your live sub-agents with their status. Those that have ended are not listed.",
  check_sub_agent:
    "Look at one sub-agent: its status and progress, and its reply if that has not reached you yet.",
  destroy_sub_agent: "End a sub-agent at once, whatever it is doing.",
  task: "Hand a task to a sub-agent with fresh context and wait for its summary. Files it writes stay.",
  agent:
    "Run a sub-agent to completion and get its final text (at most 5,000 characters). Use it for research whose steps you need not see.",
};

/** The context of a {@link ParentTool.run} call; the SDK's tool runner passes its own. */
export interface ToolRunContext {
  /** The tool call. Set it if the caller turns a thrown error into an error result. */
  toolUse?: { id: string };
  /** Aborting it destroys the sub-agent that a `task` or `agent` call waits for. */
  signal?: AbortSignal | null | undefined;
  /**
   * Receives the ack of the replies that a `check_sub_agent` call reports, for a caller that must still deliver the result.
   * Until the caller calls the ack, the replies come again. Default: they are acked before `run` resolves.
   */
  ackLater?: ((ack: () => Promise<void>) => void) | undefined;
}

/** One tool: its definition for the Messages API, and the function that runs it. */
export interface ParentTool {
  readonly name: ParentToolName;
  readonly description: string;
  /** JSON Schema, derived from the schema that `run` checks. */
  readonly input_schema: { type: "object"; [key: string]: unknown };
  /** Returns the input unchanged: `run` checks it. */
  parse(content: unknown): unknown;
  /**
   * Runs one call and resolves with the text of its result. A refusal is also returned as text. With a `toolUse` in the
   * context it is thrown instead, because the SDK's runner recognises an error result only by a thrown error.
   */
  run(input: unknown, context?: ToolRunContext): Promise<string>;
}

/** A `tool_use` block of an assistant message. */
export interface ToolUse {
  id: string;
  name: string;
  input: unknown;
}

/** The block that answers a {@link ToolUse} in the next user message. */
export interface ToolResult {
  type: "tool_result";
  tool_use_id: string;
  content: string;
  is_error?: true;
}

interface Call extends Pick<ToolRunContext, "ackLater"> {
  name: ParentToolName;
  input: unknown;
  signal: AbortSignal | undefined;
}
type Run = (context: ParentContext, call: Call) => Promise<string>;

/** Returns `run` with a check of its input before it. */
function checked<S extends z.ZodType>(
  schema: S,
  run: (context: ParentContext, input: z.output<S>, call: Call) => Promise<string>,
): Run {
  return async (context, call) => run(context, readInput(nullsLeftOut(schema), call.input, call.name), call);
}

const RUNS: Record<ParentToolName, Run> = {
  spawn_sub_agent: checked(TOOL_INPUTS.spawn_sub_agent, async (context, input) => {
    const { agent_id, status } = await spawn(context, input);
    return JSON.stringify({ agent_id, status });
  }),
  send_agent_message: checked(
    TOOL_INPUTS.send_agent_message,
    async (context, { target_agent_id, message }) => {
      const { status } = await answerOrSend(context, target_agent_id, message);
      return JSON.stringify({ target_agent_id, status });
    },
  ),
  list_sub_agents: checked(TOOL_INPUTS.list_sub_agents, async (context) => {
    const sub_agents = (await listAgents(context)).map(({ agent_id, name, status, created_at }) => ({
      agent_id,
      name,
      status,
      created_at: inSeconds(created_at),
    }));
    return JSON.stringify({ sub_agents });
  }),
  check_sub_agent: checked(TOOL_INPUTS.check_sub_agent, async (context, { agent_id }, { ackLater }) => {
    const found = await withAgent(context, agent_id, async (call, agent) => ({
      view: await viewAgent(call, agent),
      uid: agent.address.uid,
    }));
    const news = await newRepliesOf(context, found.uid);
    const text = reportOn(found.view, news);
    if (ackLater) ackLater(news.ack);
    else await news.ack();
    return text;
  }),
  destroy_sub_agent: checked(TOOL_INPUTS.destroy_sub_agent, async (context, { agent_id }) => {
    const { status } = await withAgent(context, agent_id, destroyAgent);
    return JSON.stringify({ agent_id, status });
  }),
  task: checked(TOOL_INPUTS.task, async (context, input, { signal }) => {
    return asToolResult(await task(context, "task", input, { signal }));
  }),
  agent: checked(TOOL_INPUTS.agent, async (context, { tool_allowlist, ...given }, { signal }) => {
    const input = { name: "agent", ...given, ...(tool_allowlist && { tools: tool_allowlist }) };
    return asToolResult(await task(context, "agent", input, { signal }));
  }),
};

const NAMES = Object.keys(TOOL_INPUTS) as ParentToolName[];
const Names = z.array(z.enum(NAMES));

/** Returns a parent's tools in a fixed order: all, or the named ones. Throws `invalid_input` for other names. */
export function parentTools(context: ParentContext, names?: readonly ParentToolName[]): ParentTool[] {
  const wanted = new Set(names === undefined ? NAMES : readInput(Names, names, "tools"));
  return NAMES.filter((name) => wanted.has(name)).map((name) => toolOf(context, name));
}

/**
 * Answers a `tool_use` block for the caller's own loop. Always resolves with a `tool_result`; it has `is_error` for a
 * refusal, an unknown tool or a cancelled call.
 */
export async function answerToolUse(
  tools: readonly ParentTool[],
  { id, name, input }: ToolUse,
  { signal }: { signal?: AbortSignal } = {},
): Promise<ToolResult> {
  const result = { type: "tool_result", tool_use_id: id } as const;
  const tool = tools.find((each) => each.name === name);
  if (!tool) {
    const content = `There is no tool ${JSON.stringify(name)} here. Use one of: ${tools.map((t) => t.name).join(", ")}.`;
    return { ...result, content, is_error: true };
  }
  try {
    return { ...result, content: await tool.run(input, { toolUse: { id }, signal }) };
  } catch (error) {
    const content = signal?.aborted ? "Cancelled before it was done." : messageOf(error);
    return { ...result, content, is_error: true };
  }
}

function toolOf(context: ParentContext, name: ParentToolName): ParentTool {
  const { $schema: _, ...json } = z.toJSONSchema(TOOL_INPUTS[name], { io: "input" });
  const properties = withDefinitions(json.properties ?? {}, context);
  return {
    name,
    description: TOOL_DESCRIPTIONS[name],
    input_schema: { ...json, properties, type: "object" },
    parse: (content) => content,
    async run(input, { toolUse, signal, ackLater } = {}) {
      try {
        return await RUNS[name](context, { name, input, signal: signal ?? undefined, ackLater });
      } catch (error) {
        const told = toldToModel(error);
        if (toolUse || !(told instanceof SubagentError)) throw told;
        return told.message;
      }
    },
  };
}

/** Returns the error of a call as a model can use it: no tool takes a key that makes a repetition safe. */
export function toldToModel(error: unknown): unknown {
  return withoutKey(error, "look with list_sub_agents or check_sub_agent before you repeat it");
}

const MOST_LISTED = 64;
const DESCRIPTION_CHARS = 300;

/** Adds the names of the definitions to the `agent` property, so that the model can choose one; removes it if there are none. */
function withDefinitions(
  properties: Record<string, unknown>,
  { operator }: ParentContext,
): Record<string, unknown> {
  if (!("agent" in properties)) return properties;
  const { agent: _, ...others } = properties;
  const listed = operator.definitions?.list().definitions.slice(0, MOST_LISTED) ?? [];
  if (listed.length === 0) return others;
  const lines = listed.map(
    ({ name, description }) => `${name}: ${clip(description.replace(/\s+/g, " "), DESCRIPTION_CHARS)}`,
  );
  const description = `Omit for a general sub-agent, or name a kind:\n${lines.join("\n")}`;
  return { ...others, agent: { type: "string", enum: listed.map(({ name }) => name), description } };
}

function inSeconds(iso: string): string {
  return iso.replace(/\.\d+Z$/, "Z");
}

/** Returns status and counters as JSON, a note about unknown tools, the open questions, and the new entries or the last text. */
function reportOn(
  { agent_id, status, ended_reason, run, limits, progress, questions = [] }: AgentView,
  news: NewReplies,
): string {
  const told = new Set(news.entries.map((entry) => entry.kind === "question" && entry.question_id));
  const asked = questions.filter(({ question_id }) => !told.has(question_id));
  const facts = {
    agent_id,
    status,
    ...(ended_reason && { ended_reason }),
    run,
    turns: progress?.turns ?? 0,
    max_turns: limits.max_turns,
    tokens: progress?.tokens ?? 0,
    ...(progress?.error !== undefined && { error: shownError(progress.error) }),
  };
  const over = status === "ended" || status === "idle";
  const said = over && progress ? fenced("text", `agent_id="${agent_id}"`, progress.summary) : "";
  const open = asked.map((question) => asQuestion({ agent_id, ...question }));
  const isNoted = news.entries.some((entry) => "unknown_tools" in entry);
  const note = isNoted ? "" : notesAfter(progress ?? {}).trimStart();
  return [JSON.stringify(facts), note, ...open, news.text || said].filter(Boolean).join("\n");
}
