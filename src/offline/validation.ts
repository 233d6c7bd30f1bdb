/** Refuses what the real Messages API refuses, with a sentence of the same kind. Pure. */
import type { z } from "zod";
import { joinTurns, pairingProblem } from "./pairing.ts";
import { CountTokensRequest, isToolUse, MessagesRequest, marksCache } from "./wire.ts";

/** A body that was accepted, or the sentence that says why not. */
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

/** Parses a JSON body; broken JSON and lone surrogates are refused. */
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

/** The first issue of a schema error as `path: sentence`; of a union the branch that came furthest speaks. */
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
  const twice = names.find((name, position) => names.indexOf(name) !== position);
  if (twice !== undefined) return `tools: Tool names must be unique, found ${twice} twice.`;
  const bare = (request.tools ?? []).findIndex(
    (tool) => (tool.type ?? "custom") === "custom" && !tool.input_schema,
  );
  if (bare >= 0) return `tools.${bare}.custom.input_schema: Field required`;
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
