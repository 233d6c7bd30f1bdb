/** Turns an answer into the event sequence of the streaming API. Pure. */
import type { AnswerMessage, OtherBlock } from "./wire.ts";

/** One server-sent event. `type` is the event's name and stands in its data, too. */
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

/** The events of a whole answer: `message_start`, `ping`, the blocks, `message_delta`, `message_stop`. */
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

/** An event as it stands on the wire. */
export function encodeEvent(event: StreamEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** The JSON of a tool input that was cut in half. */
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
