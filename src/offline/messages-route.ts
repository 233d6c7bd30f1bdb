/**
 * `POST /v1/messages`: check, decide, wait, answer, write it down.
 *
 * Owns nothing; ledger, prompt cache and script player are handed in.
 *
 * Invariants:
 * 1. Every call whose body arrived gets exactly one ledger entry, after its end.
 * 2. `served` is written only when the last byte of a whole answer was handed to the socket.
 */
import { type ApiError, invalidRequest } from "./api-error.ts";
import { compose } from "./composer.ts";
import { readConversation } from "./conversation.ts";
import { type Exchange, MAX_BODY_BYTES, pause, readBody, sendError } from "./exchange.ts";
import { fingerprint } from "./fingerprint.ts";
import type { Ledger, LedgerEntry } from "./ledger.ts";
import type { AnswerPlan, Plan } from "./plan.ts";
import { type Played, playAnswer } from "./playback.ts";
import type { PromptCache } from "./prompt-cache.ts";
import { isSpecific, nextByRule } from "./rules/rulebook.ts";
import type { Call, ScriptPlayer } from "./script-player.ts";
import type { Turnstile } from "./turnstile.ts";
import { checkMessages } from "./validation.ts";
import type { AnswerMessage } from "./wire.ts";

/** What the route needs. */
export interface MessagesParts {
  ledger: Ledger;
  cache: PromptCache;
  player: ScriptPlayer;
  /** Time before the first byte, unless a script says otherwise, in milliseconds. */
  latencyMs: number;
  /** Admits the calls that are answered at a time. */
  turnstile: Turnstile;
}

type Entry = Parameters<Ledger["record"]>[0];

/** Serves one call and writes its ledger entry. */
export async function serveMessages(exchange: Exchange, parts: MessagesParts): Promise<void> {
  const body = await readBody(exchange.request);
  if (body.status === "gone") return;
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
    conversation: readConversation(request, isSpecific),
  };
  const plan = parts.player.play(call, () => planByRule(call)) ?? planByRule(call);
  const leave = await parts.turnstile.enter();
  await perform(exchange, call, plan, parts).finally(leave);
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
  const played = await playAnswer(exchange, message, entry.stream, plan.fault);
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
    error_type: played.errorType,
  };
}

function planByRule({ request, conversation }: Call): AnswerPlan {
  const draft = nextByRule(conversation);
  if (draft.kind === "answer")
    return { kind: "answer", content: [{ type: "text", text: draft.text }], bounded: true };
  const oneOnly = request.tool_choice !== undefined && "disable_parallel_tool_use" in request.tool_choice;
  const single =
    oneOnly &&
    request.tool_choice?.type !== "none" &&
    request.tool_choice?.disable_parallel_tool_use === true;
  const calls = (single ? draft.calls.slice(0, 1) : draft.calls).map(
    (call) => ({ type: "tool_use", ...call }) as const,
  );
  return { kind: "answer", content: [{ type: "text", text: draft.say }, ...calls], bounded: true };
}

function describe(exchange: Exchange, { request, fingerprint: identity }: Call): Entry {
  return {
    ...unread(exchange),
    conversation: identity.conversation,
    turn: identity.turn,
    request_hash: identity.requestHash,
    stream: request.stream === true,
    tool_choice: request.tool_choice?.type ?? "auto",
    model: request.model,
    max_tokens: request.max_tokens,
    messages: request.messages.length,
    tools: (request.tools ?? []).map((tool) => tool.name),
  };
}

/** The entry of a call whose body could not be read. */
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
