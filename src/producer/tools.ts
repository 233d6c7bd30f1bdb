/**
 * The parent's calls as tools for its model: for the SDK's tool runner, or for a loop of one's own on the Messages API.
 *
 * Owns nothing; `parent.ts` does the work, `tool-inputs.ts` says what the model is told.
 *
 * 1. A refusal is a sentence for the model, never a failure of the loop. Only cancellation rejects.
 * 2. Limits are the operator's and the profile's: no input can set them.
 */
import { z } from "zod";
import { messageOf, SubagentError } from "../shared/errors.ts";
import type { AgentView } from "../shared/protocol/agent.ts";
import type { AnswerReceipt } from "./answering.ts";
import { asQuestion, asToolResult, quoted } from "./entry-text.ts";
import type { NewReplies } from "./forwarding.ts";
import { readInput } from "./input.ts";
import type { DestroyReceipt, SendReceipt } from "./managing.ts";
import type { SpawnReceipt } from "./spawning.ts";
import type { TaskOutcome } from "./task.ts";
import { type ParentToolName, TOOL_DESCRIPTIONS, TOOL_INPUTS } from "./tool-inputs.ts";

/** What a caller of {@link ParentTool.run} hands over; the SDK's tool runner does it by itself. */
export interface ToolRunContext {
  /** The call, given by a caller that turns what is thrown into an error result. */
  toolUse?: { id: string };
  /** Aborting it destroys the sub-agent that a `task` or `agent` call waits for. */
  signal?: AbortSignal | null | undefined;
}

/** One tool: the definition for the Messages API, and what runs it. */
export interface ParentTool {
  readonly name: ParentToolName;
  readonly description: string;
  /** JSON Schema, derived from what `run` checks. */
  readonly input_schema: { type: "object"; [key: string]: unknown };
  /** Hands the input on unchanged: `run` checks it. */
  parse(content: unknown): unknown;
  /**
   * Runs one call and resolves with the text of its result. A refusal is such a text, too; with a `toolUse` in the
   * context it is thrown instead, because that is how the SDK's runner learns that a result is an error.
   */
  run(input: unknown, context?: ToolRunContext): Promise<string>;
}

/** A `tool_use` block of an assistant message. */
export interface ToolUse {
  id: string;
  name: string;
  input: unknown;
}

/** The block that answers it in the next user message. */
export interface ToolResult {
  type: "tool_result";
  tool_use_id: string;
  content: string;
  is_error?: true;
}

/** The calls behind the tools. */
export interface ToolHost {
  spawn(input: { name: string; description?: string | undefined }): Promise<SpawnReceipt>;
  /** Answers the oldest question that the agent waits with, else sends it a message. */
  tell(agentId: string, text: string): Promise<SendReceipt | AnswerReceipt>;
  list(): Promise<AgentView[]>;
  check(agentId: string): Promise<{ view: AgentView; news: NewReplies }>;
  destroy(agentId: string): Promise<DestroyReceipt>;
  runTask(
    kind: "task" | "agent",
    input: Record<string, unknown>,
    ending: { signal?: AbortSignal | undefined },
  ): Promise<TaskOutcome>;
}

interface Call {
  name: ParentToolName;
  input: unknown;
  signal: AbortSignal | undefined;
}
type Run = (host: ToolHost, call: Call) => Promise<string>;

/** `run` behind the check of its input. */
function checked<S extends z.ZodType>(
  schema: S,
  run: (host: ToolHost, input: z.output<S>, signal: AbortSignal | undefined) => Promise<string>,
): Run {
  return async (host, { name, input, signal }) => run(host, readInput(schema, input, name), signal);
}

const RUNS: Record<ParentToolName, Run> = {
  spawn_sub_agent: checked(TOOL_INPUTS.spawn_sub_agent, async (host, { name, description }) => {
    const { agent_id, status } = await host.spawn({ name, ...(description && { description }) });
    return JSON.stringify({ agent_id, status });
  }),
  send_agent_message: checked(TOOL_INPUTS.send_agent_message, async (host, { target_agent_id, message }) => {
    const { status } = await host.tell(target_agent_id, message);
    return JSON.stringify({ target_agent_id, status });
  }),
  list_sub_agents: checked(TOOL_INPUTS.list_sub_agents, async (host) => {
    const sub_agents = (await host.list()).map(({ agent_id, name, status, created_at }) => ({
      agent_id,
      name,
      status,
      created_at: inSeconds(created_at),
    }));
    return JSON.stringify({ sub_agents });
  }),
  check_sub_agent: checked(TOOL_INPUTS.check_sub_agent, async (host, { agent_id }) => {
    const { view, news } = await host.check(agent_id);
    const text = reportOn(view, news);
    await news.ack();
    return text;
  }),
  destroy_sub_agent: checked(TOOL_INPUTS.destroy_sub_agent, async (host, { agent_id }) => {
    const { status } = await host.destroy(agent_id);
    return JSON.stringify({ agent_id, status });
  }),
  task: checked(TOOL_INPUTS.task, async (host, { prompt }, signal) => {
    return asToolResult((await host.runTask("task", { prompt }, { signal })).reply);
  }),
  agent: checked(TOOL_INPUTS.agent, async (host, { prompt, tool_allowlist, model }, signal) => {
    const wish = {
      name: "agent",
      prompt,
      ...(tool_allowlist && { tools: tool_allowlist }),
      ...(model && { model }),
    };
    const { reply, unknownTools } = await host.runTask("agent", wish, { signal });
    return asToolResult(reply, unknownTools);
  }),
};

const NAMES = Object.keys(TOOL_INPUTS) as ParentToolName[];
const Names = z.array(z.enum(NAMES));

/** The tools over `host`, in a fixed order: all of them, or those that are named. Throws `invalid_input` for other names. */
export function parentTools(host: ToolHost, names?: readonly ParentToolName[]): ParentTool[] {
  const wanted = new Set(names === undefined ? NAMES : readInput(Names, names, "tools"));
  return NAMES.filter((name) => wanted.has(name)).map((name) => toolOf(host, name));
}

/**
 * Answers a `tool_use` block for a loop of one's own: always with a `tool_result`, for a refusal, a tool that is not
 * there or a cancelled call with `is_error`.
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

function toolOf(host: ToolHost, name: ParentToolName): ParentTool {
  const { $schema: _, ...json } = z.toJSONSchema(TOOL_INPUTS[name], { io: "input" });
  return {
    name,
    description: TOOL_DESCRIPTIONS[name],
    input_schema: { ...json, type: "object" },
    parse: (content) => content,
    async run(input, { toolUse, signal } = {}) {
      try {
        return await RUNS[name](host, { name, input, signal: signal ?? undefined });
      } catch (error) {
        if (toolUse || !(error instanceof SubagentError)) throw error;
        return error.message;
      }
    },
  };
}

function inSeconds(iso: string): string {
  return iso.replace(/\.\d+Z$/, "Z");
}

/** Status and counters as JSON, then the open questions and what has come, or what was said last. */
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
  };
  const over = status === "ended" || status === "idle";
  const said =
    over && progress
      ? `<sub_agent_text agent_id="${agent_id}">\n${quoted(progress.summary)}\n</sub_agent_text>`
      : "";
  const open = asked.map((question) => asQuestion({ agent_id, ...question }));
  return [JSON.stringify(facts), ...open, news.text || said].filter(Boolean).join("\n");
}
