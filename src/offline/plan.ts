/** What is to be played for one call: the union that scripts and rules both end in. Pure. */
import type { ApiError } from "./api-error.ts";
import type { StreamFault } from "./scenario.ts";
import type { OtherBlock, TokenUsage } from "./wire.ts";

/** A block before it has an id. */
export type DraftBlock =
  | { type: "text"; text: string }
  | { type: "tool_use"; name: string; input: Record<string, unknown>; id?: string | undefined }
  | OtherBlock;

/** An answer that is to be composed and sent, possibly broken on the way. */
export interface AnswerPlan {
  kind: "answer";
  content: DraftBlock[];
  /** Given by a script; otherwise derived from the content. */
  stopReason?: string | undefined;
  usage?: { [K in keyof TokenUsage]?: number | undefined } | undefined;
  /** True for answers by rule: they keep to `max_tokens` and `stop_sequences`; a script says what it says. */
  bounded: boolean;
  latencyMs?: number | undefined;
  fault?: StreamFault | undefined;
}

/** See the module sentence. */
export type Plan =
  | AnswerPlan
  | { kind: "error"; error: ApiError; latencyMs?: number | undefined }
  | { kind: "reset"; latencyMs?: number | undefined };
