/** Sends a composed answer as JSON or as a stream of events, with the failure that the plan sets. */
import { setImmediate as nextRoundOfEvents } from "node:timers/promises";
import { type Exchange, errorBody, pause, sendError, sendJson, statusOf } from "./exchange.ts";
import type { StreamFailure } from "./scenario.ts";
import type { AnswerMessage, OtherBlock } from "./wire.ts";

/**
 * Result of sending: the server did not break the answer, or played a scripted failure of this type. `httpStatus`: as in the
 * ledger.
 */
export type Played = { kind: "whole" } | { kind: "failure"; errorType: string; httpStatus: number };

type Break = { at: number; kind: "error" | "stall" | "reset" | "truncate"; errorType: string };

/** Sends the answer; resolves when the server writes nothing more. */
export async function playAnswer(
  exchange: Exchange,
  message: AnswerMessage,
  stream: boolean,
  failure: StreamFailure | undefined,
): Promise<Played> {
  if (stream) return playStream(exchange, message, failure);
  const broken = breakOf(failure);
  if (broken !== undefined) return playJsonFault(exchange, broken);
  sendJson(exchange, 200, failure?.invalidJsonInput === true ? withBrokenInputs(message) : message);
  return { kind: "whole" };
}

async function playStream(
  exchange: Exchange,
  message: AnswerMessage,
  failure: StreamFailure | undefined,
): Promise<Played> {
  const { response } = exchange;
  const events = eventsOf(message, { invalidJsonInput: failure?.invalidJsonInput });
  const broken = breakOf(failure);
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
  });
  const sent = broken === undefined ? events : events.slice(0, broken.at);
  if (!(await writeEvents(exchange, sent, failure?.chunkDelayMs ?? 0))) return { kind: "whole" };
  if (broken === undefined || broken.at >= events.length) {
    response.end();
    return { kind: "whole" };
  }
  await breakOff(exchange, broken);
  return { kind: "failure", errorType: broken.errorType, httpStatus: 200 };
}

/** Writes events, in one write if there is no delay between them. Resolves to `false` if the client disconnected. */
async function writeEvents(
  exchange: Exchange,
  events: readonly StreamEvent[],
  delayMs: number,
): Promise<boolean> {
  if (delayMs === 0) {
    const text = events.map(encodeEvent).join("");
    if (text !== "") exchange.response.write(text);
    return !exchange.gone.aborted;
  }
  exchange.response.flushHeaders();
  for (const event of events) {
    if (!(await pause(exchange, delayMs))) return false;
    exchange.response.write(encodeEvent(event));
  }
  return true;
}

async function breakOff(exchange: Exchange, broken: Break): Promise<void> {
  const { response } = exchange;
  response.flushHeaders();
  if (broken.kind === "stall") return;
  if (broken.kind === "reset") {
    await nextRoundOfEvents();
    response.socket?.resetAndDestroy();
    return;
  }
  const data = errorBody(
    { type: broken.errorType, message: `Scripted ${broken.errorType}.` },
    exchange.requestId,
  );
  response.end(broken.kind === "error" ? encodeEvent({ ...data }) : undefined);
}

function playJsonFault(exchange: Exchange, { kind, errorType }: Break): Played {
  if (kind === "error") {
    const status = statusOf(errorType);
    sendError(exchange, { status, type: errorType, message: `Scripted ${errorType}.` });
    return { kind: "failure", errorType, httpStatus: status };
  }
  if (kind === "stall") return { kind: "failure", errorType, httpStatus: 200 };
  exchange.response.socket?.resetAndDestroy();
  return { kind: "failure", errorType, httpStatus: 0 };
}

function breakOf(failure: StreamFailure | undefined): Break | undefined {
  const breaks: { at: number | undefined; kind: Break["kind"]; errorType: string }[] = [
    { at: failure?.errorAfterChunks, kind: "error", errorType: failure?.errorType ?? "overloaded_error" },
    { at: failure?.stallAfterChunks, kind: "stall", errorType: "stall" },
    { at: failure?.resetAfterChunks, kind: "reset", errorType: "reset" },
    { at: failure?.truncateAfterChunks, kind: "truncate", errorType: "truncated" },
  ];
  return breaks
    .flatMap(({ at, ...rest }) => (at === undefined ? [] : [{ at, ...rest }]))
    .sort((a, b) => a.at - b.at)[0];
}

function withBrokenInputs(message: AnswerMessage) {
  const content = message.content.map((block) =>
    block.type === "tool_use" ? { ...block, input: brokenJson(block.input) } : block,
  );
  return { ...message, content };
}

// Converts an answer to the event sequence of the streaming API. Pure.

/** One server-sent event. `type` is the event's name, which its data also contains. */
export interface StreamEvent {
  type: string;
  [key: string]: unknown;
}

const MIN_PIECE_CHARS = 16;
const MAX_PIECES = 32;

/** Options of `eventsOf`. */
export interface EventOptions {
  /** Cut the JSON of tool inputs in half, so that it does not parse. */
  invalidJsonInput?: boolean | undefined;
}

/** Returns the events of a whole answer: `message_start`, `ping`, the blocks, `message_delta`, `message_stop`. */
export function eventsOf(message: AnswerMessage, options: EventOptions = {}): StreamEvent[] {
  const start = { ...message, content: [], stop_reason: null, stop_sequence: null, stop_details: null };
  const { usage } = message;
  return [
    { type: "message_start", message: { ...start, usage: { ...usage, output_tokens: 1 } } },
    { type: "ping" },
    ...message.content.flatMap((block, index) => [
      { type: "content_block_start", index, content_block: opening(block) },
      ...deltas(block, options).map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ]),
    {
      type: "message_delta",
      delta: {
        container: null,
        stop_reason: message.stop_reason,
        stop_sequence: message.stop_sequence,
        stop_details: message.stop_details,
      },
      usage: {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
        cache_creation_input_tokens: usage.cache_creation_input_tokens,
        output_tokens_details: null,
        server_tool_use: null,
      },
    },
    { type: "message_stop" },
  ];
}

/** Encodes an event as server-sent-event text. */
export function encodeEvent(event: StreamEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Returns the first half of the JSON of a tool input. */
export function brokenJson(input: unknown): string {
  const json = JSON.stringify(input);
  return json.slice(0, Math.max(1, Math.floor(json.length / 2)));
}

function opening(block: OtherBlock): OtherBlock {
  if (block.type === "text") return { ...block, text: "" };
  if (block.type === "tool_use") return { ...block, input: {} };
  return block.type === "thinking" ? { ...block, thinking: "", signature: "" } : block;
}

function deltas(block: OtherBlock, options: EventOptions): StreamEvent[] {
  if (block.type === "text") return pieces(String(block.text)).map((text) => ({ type: "text_delta", text }));
  if (block.type === "tool_use") {
    const json = options.invalidJsonInput === true ? brokenJson(block.input) : JSON.stringify(block.input);
    return ["", ...pieces(json)].map((partial) => ({ type: "input_json_delta", partial_json: partial }));
  }
  if (block.type !== "thinking") return [];
  const thoughts = pieces(String(block.thinking)).map((thinking) => ({ type: "thinking_delta", thinking }));
  return [...thoughts, { type: "signature_delta", signature: String(block.signature) }];
}

/** Cuts a text between code points into at most `MAX_PIECES` pieces. */
function pieces(text: string): string[] {
  const size = Math.max(MIN_PIECE_CHARS, Math.ceil(text.length / MAX_PIECES));
  return text.match(new RegExp(`[\\s\\S]{1,${size}}`, "gu")) ?? [];
}
