/** Rejects the requests that the real Messages API rejects, with similar sentences. Pure. */
import type { z } from "zod";
import {
  type Block,
  CountTokensRequest,
  isToolResult,
  isToolUse,
  type Message,
  MessagesRequest,
  marksCache,
} from "./wire.ts";

/** A valid body, or the reason why it is invalid. */
export type Checked<T> = { status: "valid"; request: T } | { status: "invalid"; problem: string };

const MAX_CACHE_BREAKPOINTS = 4;

/** Checks the body of `POST /v1/messages`. */
export function checkMessages(body: string): Checked<MessagesRequest> {
  return check(body, MessagesRequest);
}

/** Checks the body of `POST /v1/messages/count_tokens`. */
export function checkCountTokens(body: string): Checked<CountTokensRequest> {
  return check(body, CountTokensRequest);
}

function check<T extends CountTokensRequest>(body: string, schema: z.ZodType<T>): Checked<T> {
  const json = parseJson(body);
  if (json.status === "invalid") return json;
  const parsed = schema.safeParse(json.request);
  if (!parsed.success) return { status: "invalid", problem: firstIssue(parsed.error.issues, json.request) };
  const problem = toolsProblem(parsed.data) ?? messagesProblem(parsed.data) ?? cacheProblem(parsed.data);
  return problem === undefined ? { status: "valid", request: parsed.data } : { status: "invalid", problem };
}

/** Parses a JSON body; broken JSON and lone surrogates are invalid. */
export function parseJson(body: string): Checked<unknown> {
  if (hasLoneSurrogate(body)) {
    return { status: "invalid", problem: "The request body is not valid JSON: lone surrogate in a string" };
  }
  try {
    return { status: "valid", request: JSON.parse(body) };
  } catch {
    return { status: "invalid", problem: "The request body is not valid JSON" };
  }
}

function hasLoneSurrogate(body: string): boolean {
  if (!/\\ud/i.test(body)) return false;
  const escapes = body.replaceAll("\\\\", "").replace(/\\ud[89ab]..\\ud[c-f]../gi, "");
  return /\\ud[89a-f]/i.test(escapes);
}

/** Returns the first issue of a schema error as `path: sentence`; for a union, that of the branch with the longest path. */
function firstIssue(
  issues: readonly z.core.$ZodIssue[],
  body: unknown,
  base: readonly PropertyKey[] = [],
): string {
  const issue = issues[0];
  if (issue === undefined) return "The request body does not match the schema";
  const path = [...base, ...issue.path];
  if (issue.code === "invalid_union" && issue.errors.length > 0) {
    const reach = (branch: readonly z.core.$ZodIssue[]): number => branch[0]?.path.length ?? 0;
    const furthest = [...issue.errors].sort((a, b) => reach(b) - reach(a))[0] ?? [];
    return firstIssue(furthest, body, path);
  }
  if (issue.code === "unrecognized_keys") {
    return `${[...path, issue.keys[0]].join(".")}: Extra inputs are not permitted`;
  }
  const sentence = path.length > 0 && valueAt(body, path) === undefined ? "Field required" : issue.message;
  return path.length === 0 ? sentence : `${path.join(".")}: ${sentence}`;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (typeof inner === "object" && inner !== null ? Reflect.get(inner, key) : undefined),
    value,
  );
}

function toolsProblem(request: CountTokensRequest): string | undefined {
  const names = (request.tools ?? []).map((tool) => tool.name);
  const twice = firstRepeated(names);
  if (twice !== undefined) return `tools: Tool names must be unique, found ${twice} twice.`;
  const bare = (request.tools ?? []).findIndex(
    (tool) => (tool.type ?? "custom") === "custom" && !tool.input_schema,
  );
  if (bare >= 0) return `tools.${bare}.custom.input_schema: Field required`;
  const unusable = schemasProblem(request.tools ?? []);
  if (unusable !== undefined) return unusable;
  const choice = request.tool_choice;
  if ((choice?.type === "any" || choice?.type === "tool") && names.length === 0) {
    return "tool_choice: may only be specified while providing tools";
  }
  if (choice?.type === "tool" && !names.includes(choice.name))
    return `tool_choice: Tool '${choice.name}' not found in provided tools`;
  const usesTools = request.messages.some((message) => message.content.some(isToolUse));
  return usesTools && names.length === 0
    ? "Requests which include `tool_use` or `tool_result` blocks must define tools"
    : undefined;
}

/** Returns the first text that stands in the list before; undefined if each is there once. */
function firstRepeated(texts: readonly string[]): string | undefined {
  const seen = new Set<string>();
  return texts.find((text) => seen.size === seen.add(text).size);
}

const PROPERTY_KEY = /^[a-zA-Z0-9_.-]{1,64}$/;

/** Returns the first problem of a tool's input schema that the API rejects; it checks property keys only at the top level. */
function schemasProblem(tools: NonNullable<CountTokensRequest["tools"]>): string | undefined {
  for (const [index, { input_schema: schema }] of tools.entries()) {
    if (schema === undefined) continue;
    const path = `tools.${index}.custom.input_schema`;
    if (["oneOf", "allOf", "anyOf"].some((keyword) => keyword in schema))
      return `${path}: input_schema does not support oneOf, allOf, or anyOf at the top level`;
    if (!Object.keys(schema.properties ?? {}).every((key) => PROPERTY_KEY.test(key)))
      return `${path}.properties: Property keys should match pattern '${PROPERTY_KEY.source}'`;
  }
  return undefined;
}

function messagesProblem(request: CountTokensRequest): string | undefined {
  if (request.messages[0]?.role !== "user") return 'messages: first message must use the "user" role';
  const last = request.messages.length - 1;
  const empty = request.messages.findIndex(
    (message, index) => message.content.length === 0 && !(index === last && message.role === "assistant"),
  );
  if (empty >= 0) {
    return `messages.${empty}: all messages must have non-empty content except for the optional final assistant message`;
  }
  return pairingProblem(joinTurns(request.messages));
}

function cacheProblem(request: CountTokensRequest): string | undefined {
  const system = typeof request.system === "string" ? [] : (request.system ?? []);
  const carriers = [
    request,
    ...system,
    ...(request.tools ?? []),
    ...request.messages.flatMap((message) => message.content),
  ];
  const found = carriers.filter(marksCache).length;
  return found > MAX_CACHE_BREAKPOINTS
    ? `A maximum of ${MAX_CACHE_BREAKPOINTS} blocks with cache_control may be provided. Found ${found}.`
    : undefined;
}

// The pairing rule: the next user message has a result for each tool call, results first. Pure.

/** Consecutive messages of one role, joined. `index` is that of the first message. */
export interface Turn {
  role: Message["role"];
  index: number;
  blocks: Block[];
}

/** Joins consecutive messages of one role, as the API does. */
export function joinTurns(messages: readonly Message[]): Turn[] {
  const turns: Turn[] = [];
  messages.forEach((message, index) => {
    const last = turns.at(-1);
    if (last?.role === message.role) for (const block of message.content) last.blocks.push(block);
    else turns.push({ role: message.role, index, blocks: [...message.content] });
  });
  return turns;
}

/** Returns the first violation of the pairing rule as a sentence, or `undefined`. */
function pairingProblem(turns: readonly Turn[]): string | undefined {
  const seen = new Set<string>();
  let open: string[] = [];
  for (const turn of turns) {
    if (turn.role === "system") continue;
    const problem = turn.role === "assistant" ? callsProblem(turn, seen) : answersProblem(turn, open);
    if (problem !== undefined) return `messages.${turn.index}: ${problem}`;
    open = turn.role === "assistant" ? turn.blocks.filter(isToolUse).map((call) => call.id) : [];
  }
  return open.length === 0 ? undefined : `messages.${turns.at(-1)?.index}: ${unanswered(open)}`;
}

function unanswered(ids: readonly string[]): string {
  return (
    `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids.join(", ")}. ` +
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
  );
}

function callsProblem(turn: Turn, seen: Set<string>): string | undefined {
  if (turn.blocks.some(isToolResult)) return "`tool_result` blocks can only be in `user` messages";
  for (const call of turn.blocks.filter(isToolUse)) {
    if (seen.has(call.id)) return `\`tool_use\` ids must be unique, found ${call.id} twice`;
    seen.add(call.id);
  }
  return undefined;
}

function answersProblem(turn: Turn, open: readonly string[]): string | undefined {
  if (turn.blocks.some(isToolUse)) return "`tool_use` blocks can only be in `assistant` messages";
  const answered = turn.blocks.filter(isToolResult).map((result) => result.tool_use_id);
  const [asked, given] = [new Set(open), new Set(answered)];
  const stray = answered.filter((id) => !asked.has(id));
  if (stray.length > 0) {
    return (
      `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${stray.join(", ")}. ` +
      "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    );
  }
  const twice = firstRepeated(answered);
  if (twice !== undefined)
    return `each tool_use must have a single result, found several \`tool_result\` blocks for ${twice}`;
  const missing = open.filter((id) => !given.has(id));
  if (missing.length > 0) return unanswered(missing);
  const firstOther = turn.blocks.findIndex((block) => !isToolResult(block));
  const lastResult = turn.blocks.findLastIndex(isToolResult);
  return firstOther >= 0 && firstOther < lastResult
    ? "`tool_result` blocks must come first in the message, before any other content"
    : undefined;
}
