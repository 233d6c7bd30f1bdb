/** Makes the parts of a request as JSON text, each once. Equal inputs give equal bytes: prompt caches need that. Pure. */
import type { Pace } from "../../shared/protocol/limits.ts";
import { wellFormedJson } from "../../shared/protocol/reply.ts";
import type { ModelMessage, ModelRequest, ToolSchema } from "./model.ts";

const CACHED = { type: "ephemeral" } as const;
const CACHE_MARK = `,"cache_control":${JSON.stringify(CACHED)}`;
/** End of every message: of its last block, of the list of blocks, and of the message. */
const MESSAGE_END = "}]}";

/** Parts that stay the same for all calls of a run. */
export interface HeadParts {
  /** Upper bound of output tokens of one call. */
  maxTokens: number;
  /** System prompt; empty means none. Must be byte-identical for all agents of one kind, or prompt caching is lost. */
  system: string;
  /** Tools on offer, in a stable order. */
  tools: readonly ToolSchema[];
}

/** Keeps the tools in the (cached) prefix but forbids their use: `extra` of a final call. */
export const NO_TOOL_CHOICE = '"tool_choice":{"type":"none"}';

const TASK_BUDGETS = "task-budgets-2026-03-13";

/** Returns the member `output_config` of a request ("" if it has no content) and the beta feature that it needs. */
export function outputConfig(
  { effort, task_budget: total }: Pace,
  summedUpTokens: number,
  format: string,
): { member: string; beta?: string } {
  const members: string[] = [];
  if (effort) members.push(`"effort":"${effort}"`);
  if (total !== undefined) {
    // The provider counts the tokens it sees; it no longer sees the messages that a summary replaced.
    const remaining = summedUpTokens > 0 && { remaining: Math.max(0, total - summedUpTokens) };
    members.push(`"task_budget":${JSON.stringify({ type: "tokens", total, ...remaining })}`);
  }
  if (format !== "") members.push(format);
  const member = members.length > 0 ? `"output_config":{${members.join(",")}}` : "";
  return { member, ...(total !== undefined && { beta: TASK_BUDGETS }) };
}

/**
 * Makes {@link ModelRequest.head}. Marks two places for the prompt cache. The first is the end of tools and system prompt,
 * which all agents of one kind share. The second is the end of the conversation; the provider finds it.
 */
export function requestHead(parts: HeadParts): string {
  const kind = `${parts.maxTokens} ${parts.system}`;
  const known = heads.get(kind);
  if (known && areSame(known.tools, parts.tools)) return known.head;
  const head = spelledHead(parts);
  if (head.length > LONGEST_KEPT_HEAD) return head;
  heads.delete(kind);
  heads.set(kind, { tools: parts.tools, head });
  const [oldest] = heads.keys();
  if (heads.size > MOST_KEPT_HEADS && oldest !== undefined) heads.delete(oldest);
  return head;
}

/** Cache of the newest heads, by their contents: runs of one kind of agent share them. At most 2 Mi characters. */
const heads = new Map<string, { tools: readonly ToolSchema[]; head: string }>();
const MOST_KEPT_HEADS = 32;
const LONGEST_KEPT_HEAD = 64 * 1024;

/** Compares two lists of tools; schemas by identity, because a schema never changes once offered. */
function areSame(some: readonly ToolSchema[], others: readonly ToolSchema[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ name, description, input_schema }, i) => {
      const other = others[i];
      return other?.name === name && other.description === description && other.input_schema === input_schema;
    })
  );
}

function spelledHead({ maxTokens, system, tools }: HeadParts): string {
  const members = {
    max_tokens: maxTokens,
    ...(tools.length > 0 && { tools: toolParams(tools, system === "") }),
    ...(system !== "" && { system: [{ type: "text", text: system, cache_control: CACHED }] }),
    cache_control: CACHED,
  };
  return wellFormedJson(JSON.stringify(members)).slice(1, -1);
}

/** Maps tools to request form. Without a system prompt the last tool carries the shared mark. */
function toolParams(tools: readonly ToolSchema[], isMarked: boolean) {
  return tools.map(({ name, description, input_schema }, index) => ({
    name,
    description,
    input_schema: { ...input_schema, type: "object" },
    ...(isMarked && index === tools.length - 1 && { cache_control: CACHED }),
  }));
}

/** Serialises one message as a piece of {@link ModelRequest.messages}. */
export function messageJson({ role, content }: ModelMessage): string {
  return wellFormedJson(JSON.stringify({ role, content }));
}

/** Builds the request body. */
export function requestBody(request: ModelRequest, isStreamed: boolean): string {
  const { model, head, extra } = request;
  const named = `"model":${JSON.stringify(model)},${head}`;
  const members = extra === "" ? named : `${named},${extra}`;
  const messages = withCacheMark(request);
  return isStreamed
    ? `{${members},"messages":[${messages}],"stream":true}`
    : `{${members},"messages":[${messages}]}`;
}

/** Marks the last block of the message that ended the previous call. */
function withCacheMark({ messages, cachedLength }: ModelRequest): string {
  const at = cachedLength - MESSAGE_END.length;
  if (!messages.startsWith(MESSAGE_END, at)) return messages;
  return messages.slice(0, at) + CACHE_MARK + messages.slice(at);
}
