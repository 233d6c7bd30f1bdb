/**
 * `POST /v1/messages`: validates, plans, waits, answers, and writes the ledger entry.
 *
 * Owns no state: it gets ledger, prompt cache and script player as arguments.
 *
 * Invariants:
 * 1. Every call whose body arrived gets exactly one ledger entry, after its end; but none is answered, and none gets an entry,
 *    while the ledger's file cannot be appended to: a ledger with gaps proves nothing.
 * 2. `served` is written only when the last byte of a whole answer was written to the socket.
 */

import { type AnswerPlan, compose, type Plan } from "./answer.ts";
import { fingerprint, type PromptCache, systemText } from "./cache.ts";
import { readConversation } from "./conversation.ts";
import {
  type ApiError,
  type Exchange,
  invalidRequest,
  MAX_BODY_BYTES,
  pause,
  readBody,
  sendError,
} from "./exchange.ts";
import type { Ledger, LedgerEntry } from "./ledger.ts";
import { isKnown, nextByRule } from "./rules/rulebook.ts";
import type { Call, ScriptPlayer } from "./script-player.ts";
import { shaped } from "./shape.ts";
import { type Played, playAnswer } from "./stream.ts";
import { checkMessages } from "./validation.ts";
import { type AnswerMessage, isText, isToolUse } from "./wire.ts";

/** The parts that the route uses. */
export interface MessagesParts {
  ledger: Ledger;
  cache: PromptCache;
  player: ScriptPlayer;
  /** Time before the first byte, unless a script sets it, in milliseconds. */
  latencyMs: number;
  /** Limits the calls that are answered at a time. */
  semaphore: Semaphore;
}

type Entry = Parameters<Ledger["record"]>[0];

/** Serves one call and writes its ledger entry. */
export async function serveMessages(exchange: Exchange, parts: MessagesParts): Promise<void> {
  const body = await readBody(exchange.request);
  if (body.status === "gone") return;
  const problem = ledgerProblem(parts.ledger);
  if (problem !== undefined) return sendError(exchange, { status: 500, type: "api_error", message: problem });
  if (body.status === "too_large") {
    const message = `Request exceeds the maximum size of ${MAX_BODY_BYTES} bytes`;
    return refuse(
      exchange,
      { status: 413, type: "request_too_large", message },
      unread(exchange),
      parts.ledger,
    );
  }
  const checked = checkMessages(body.text);
  if (checked.status === "invalid")
    return refuse(exchange, invalidRequest(checked.problem), unread(exchange), parts.ledger);
  const { request } = checked;
  const call = {
    request,
    fingerprint: fingerprint(request),
    conversation: readConversation(request, isKnown),
  };
  const plan = parts.player.play(call, () => planByRule(call)) ?? planByRule(call);
  const leave = await parts.semaphore.enter();
  await perform(exchange, call, plan, parts).finally(leave);
}

/** Returns why the ledger's file takes no entry now; undefined if it takes them. */
function ledgerProblem(ledger: Ledger): string | undefined {
  try {
    ledger.flush();
    return undefined;
  } catch (error) {
    return `The ledger cannot be appended to (${String(error)}): make room, or restart the offline model with another one.`;
  }
}

async function perform(exchange: Exchange, call: Call, plan: Plan, parts: MessagesParts): Promise<void> {
  const entry = describe(exchange, call);
  const present = await pause(exchange, plan.latencyMs ?? parts.latencyMs);
  if (!present) return parts.ledger.record({ ...entry, status: "aborted" });
  if (plan.kind === "error") return refuse(exchange, plan.error, entry, parts.ledger);
  if (plan.kind === "reset") {
    exchange.response.socket?.resetAndDestroy();
    return parts.ledger.record({ ...entry, status: "error", http_status: 0, error_type: "reset" });
  }
  const message = compose(plan, call.request, call.fingerprint, parts.cache.charge(call.fingerprint));
  const played = await playAnswer(exchange, message, entry.stream, plan.failure);
  parts.ledger.record({ ...entry, ...outcome(message, played, await exchange.ended) });
}

async function refuse(exchange: Exchange, error: ApiError, entry: Entry, ledger: Ledger): Promise<void> {
  sendError(exchange, error);
  const whole = await exchange.ended;
  ledger.record({
    ...entry,
    status: whole ? "error" : "aborted",
    http_status: error.status,
    error_type: error.type,
  });
}

function outcome(message: AnswerMessage, played: Played, whole: boolean): Partial<Entry> {
  const { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } = message.usage;
  const usage = { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens };
  const bought = { message_id: message.id, stop_reason: message.stop_reason, usage };
  if (played.kind === "whole") return { ...bought, status: whole ? "served" : "aborted" };
  return {
    ...bought,
    status: played.errorType === "stall" ? "aborted" : "error",
    http_status: played.httpStatus,
    error_type: played.errorType,
  };
}

function planByRule({ request, conversation }: Call): AnswerPlan {
  const draft = nextByRule(conversation);
  if (typeof draft === "string") {
    const { format } = request.output_config ?? {};
    const text = format ? shaped(toldSchema(request) ?? format.schema, lastSaid(request) ?? draft) : draft;
    return { kind: "answer", content: [{ type: "text", text }], bounded: true };
  }
  const choice = request.tool_choice;
  const single =
    choice !== undefined && "disable_parallel_tool_use" in choice && choice.disable_parallel_tool_use;
  const calls = single ? draft.slice(0, 1) : draft;
  const content = calls.map((call) => ({ type: "tool_use", ...call }) as const);
  return { kind: "answer", content, bounded: true };
}

const TOLD_SCHEMA = /^Output schema:[^\n]*\n(\{.*\})$/m;

/** Returns the whole schema from the instructions; `output_config.format` has only the part that the API enforces. */
function toldSchema(request: Call["request"]): unknown {
  try {
    return JSON.parse(TOLD_SCHEMA.exec(systemText(request))?.[1] ?? "");
  } catch {
    return undefined;
  }
}

/** Returns the text of the last answer, to be put into the schema; undefined if it called tools or there is none. */
function lastSaid({ messages }: Call["request"]): string | undefined {
  const last = messages.findLast(({ role }) => role === "assistant");
  if (!last || last.content.some(isToolUse)) return undefined;
  return last.content
    .filter(isText)
    .map(({ text }) => text)
    .join("\n");
}

function describe(exchange: Exchange, { request, fingerprint: identity }: Call): Entry {
  return {
    ...unread(exchange),
    conversation: identity.conversation,
    turn: identity.turn,
    request_hash: identity.requestHash,
    stream: request.stream === true,
    tool_choice: request.tool_choice?.type ?? "auto",
    ...(request.output_config?.format && { output_format: true }),
    model: request.model,
    max_tokens: request.max_tokens,
    messages: request.messages.length,
    tools: (request.tools ?? []).map((tool) => tool.name),
  };
}

/** Returns the ledger entry of a call whose body could not be read. */
function unread({ request, beganAt }: Exchange): Omit<LedgerEntry, "seq" | "at"> {
  const key = request.headers["idempotency-key"];
  return {
    began_at: beganAt,
    idempotency_key: typeof key === "string" ? key : null,
    conversation: "",
    turn: 0,
    request_hash: "",
    stream: false,
    status: "error",
    http_status: 200,
    error_type: null,
    stop_reason: null,
    usage: null,
    tool_choice: "auto",
    model: "",
    max_tokens: 0,
    messages: 0,
    tools: [],
    message_id: null,
  };
}

/** Limits the calls at a time; further calls wait in the order in which they arrived. */
export interface Semaphore {
  /** Resolves when a slot is free. The caller calls the returned function once, to release the slot. */
  enter(): Promise<() => void>;
}

/** Creates a semaphore with this many slots; undefined: no limit. */
export function createSemaphore(slots: number | undefined): Semaphore {
  const waiting: (() => void)[] = [];
  let free = slots ?? Number.POSITIVE_INFINITY;
  const leave = () => {
    const next = waiting.shift();
    if (next) next();
    else free += 1;
  };
  return {
    async enter() {
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      return leave;
    },
  };
}
