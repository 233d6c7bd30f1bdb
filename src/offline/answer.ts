/** Composes the assistant message of a plan: ids, stop reason, usage. Pure. */
import { digest, estimateTokens, type Fingerprint, type InputUsage } from "./cache.ts";
import type { ApiError } from "./exchange.ts";
import type { StreamFailure } from "./scenario.ts";
import type { AnswerMessage, MessagesRequest, OtherBlock, TokenUsage } from "./wire.ts";

interface Bounded {
  content: DraftBlock[];
  stopReason?: string | undefined;
  stopSequence?: string | undefined;
}

/**
 * Composes the answer. Ids are hashes of conversation, messages and position. So the same request gets the same ids: a turn
 * that is bought twice can be recognised, and no id occurs twice in a conversation.
 */
export function compose(
  plan: AnswerPlan,
  request: MessagesRequest,
  fingerprint: Fingerprint,
  input: InputUsage,
): AnswerMessage {
  const { content, stopReason, stopSequence } = plan.bounded ? bound(plan.content, request) : whole(plan);
  const identity = [fingerprint.conversation, fingerprint.requestHash, String(fingerprint.turn)];
  const blocks = content.map((block, index) => finish(block, `toolu_${digest(...identity, String(index))}`));
  const reason =
    stopReason ??
    plan.stopReason ??
    (content.some((block) => block.type === "tool_use") ? "tool_use" : "end_turn");
  const defined = Object.fromEntries(
    Object.entries(plan.usage ?? {}).filter(([, count]) => count !== undefined),
  );
  const usage = { ...input, output_tokens: outputTokens(blocks), ...defined };
  return {
    id: `msg_${digest(...identity, "message")}`,
    type: "message",
    role: "assistant",
    model: request.model,
    content: blocks,
    container: null,
    diagnostics: null,
    stop_reason: reason,
    stop_sequence:
      stopSequence ?? (reason === "stop_sequence" ? (request.stop_sequences?.[0] ?? null) : null),
    stop_details: reason === "refusal" ? { type: "refusal", category: null, explanation: null } : null,
    usage: {
      ...usage,
      cache_creation: {
        ephemeral_5m_input_tokens: usage.cache_creation_input_tokens,
        ephemeral_1h_input_tokens: 0,
      },
      inference_geo: null,
      output_tokens_details: null,
      server_tool_use: null,
      service_tier: "standard",
      speed: null,
    },
  };
}

function finish(block: DraftBlock, id: string): OtherBlock {
  return block.type === "tool_use"
    ? { caller: { type: "direct" }, ...block, id: block.id ?? id }
    : { ...block };
}

/** Estimates the tokens of an answer; at least 1, as with the real API. */
function outputTokens(blocks: readonly OtherBlock[]): number {
  return Math.max(
    1,
    blocks.reduce((sum, block) => sum + estimateTokens(weightOf(block)), 0),
  );
}

function weightOf(block: DraftBlock): string {
  if (block.type === "text" && "text" in block) return String(block.text);
  return block.type === "tool_use" ? `${block.name}${JSON.stringify(block.input)}` : JSON.stringify(block);
}

function whole({ content }: AnswerPlan): Bounded {
  return { content };
}

/** Cuts an answer by rule at the first stop sequence or at `max_tokens`; a tool call that does not fit is left out. */
function bound(content: readonly DraftBlock[], request: MessagesRequest): Bounded {
  const kept: DraftBlock[] = [];
  let left = request.max_tokens;
  for (const block of content) {
    const sequence =
      block.type === "text" ? firstStop(String(block.text), request.stop_sequences ?? []) : undefined;
    const spoken = sequence === undefined ? block : { type: "text", text: sequence.before };
    const needed = estimateTokens(weightOf(spoken));
    if (needed > left) {
      const text = block.type === "text" ? cutToBytes(weightOf(spoken), left * 4) : "";
      return {
        content: text.trim() === "" ? kept : [...kept, { type: "text", text }],
        stopReason: "max_tokens",
      };
    }
    left -= needed;
    if (sequence === undefined || sequence.before.trim() !== "") kept.push(spoken);
    if (sequence !== undefined)
      return { content: kept, stopReason: "stop_sequence", stopSequence: sequence.stop };
  }
  return { content: kept };
}

function firstStop(text: string, stops: readonly string[]): { before: string; stop: string } | undefined {
  const found = stops.map((stop) => ({ stop, at: text.indexOf(stop) })).filter(({ at }) => at >= 0);
  const first = found.sort((a, b) => a.at - b.at)[0];
  return first === undefined ? undefined : { before: text.slice(0, first.at), stop: first.stop };
}

function cutToBytes(text: string, maxBytes: number): string {
  const points = [...text];
  let bytes = 0;
  const end = points.findIndex((point) => {
    bytes += Buffer.byteLength(point);
    return bytes > maxBytes;
  });
  return end < 0 ? text : points.slice(0, end).join("");
}

// The plan for one call: the result of a script or of the rules. Pure.

/** A content block before it gets an id. */
export type DraftBlock =
  | { type: "text"; text: string }
  | { type: "tool_use"; name: string; input: Record<string, unknown>; id?: string | undefined }
  | OtherBlock;

/** An answer to compose and send, with an optional failure in its stream. */
export interface AnswerPlan {
  kind: "answer";
  content: DraftBlock[];
  /** Set by a script; default: derived from the content. */
  stopReason?: string | undefined;
  usage?: { [K in keyof TokenUsage]?: number | undefined } | undefined;
  /** True for answers by rule, which obey `max_tokens` and `stop_sequences`; a script's answer is never cut. */
  bounded: boolean;
  latencyMs?: number | undefined;
  failure?: StreamFailure | undefined;
}

/** The plan for one call: an answer, an error, or a connection reset. */
export type Plan =
  | AnswerPlan
  | { kind: "error"; error: ApiError; latencyMs?: number | undefined }
  | { kind: "reset"; latencyMs?: number | undefined };
