/** Content blocks and token usage, as the Messages API spells them. */
import { z } from "zod";

/** Text written by the model or sent to it. */
export const TextBlock = z.object({ type: z.literal("text"), text: z.string() });
/** A tool call asked for by the model; `input` is whatever JSON object it wrote. */
export const ToolUseBlock = z.object({
  type: z.literal("tool_use"),
  id: z.string(),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
});
/** The result of one tool call, sent back to the model. */
export const ToolResultBlock = z.object({
  type: z.literal("tool_result"),
  tool_use_id: z.string(),
  content: z.string(),
  is_error: z.boolean().optional(),
});
/** Any other block (thinking, …): kept verbatim, it must go back unchanged. */
export const OtherBlock = z.looseObject({ type: z.string() });
/** One block of a message. */
export const ContentBlock = z.union([TextBlock, ToolUseBlock, ToolResultBlock, OtherBlock]);

/** Tokens of one call or a sum of calls. The four never overlap. */
export const Usage = z.object({
  input_tokens: z.int().min(0),
  output_tokens: z.int().min(0),
  cache_read_input_tokens: z.int().min(0),
  cache_creation_input_tokens: z.int().min(0),
});

/** See {@link TextBlock}. */
export type TextBlock = z.infer<typeof TextBlock>;
/** See {@link ToolUseBlock}. */
export type ToolUseBlock = z.infer<typeof ToolUseBlock>;
/** See {@link ToolResultBlock}. */
export type ToolResultBlock = z.infer<typeof ToolResultBlock>;
/** See {@link ContentBlock}. */
export type ContentBlock = z.infer<typeof ContentBlock>;
/** See {@link Usage}. */
export type Usage = z.infer<typeof Usage>;

/** Usage of nothing. */
export const NO_USAGE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};

/** The sum of two usages, field by field. */
export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    cache_read_input_tokens: a.cache_read_input_tokens + b.cache_read_input_tokens,
    cache_creation_input_tokens: a.cache_creation_input_tokens + b.cache_creation_input_tokens,
  };
}

/** Tokens of the prompt as the provider counts them: plain input, cache reads and cache writes. */
export function promptTokens(usage: Usage): number {
  return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
}

/** All tokens of a usage: the sum of its four fields. */
export function totalTokens(usage: Usage): number {
  return (
    usage.input_tokens +
    usage.output_tokens +
    usage.cache_read_input_tokens +
    usage.cache_creation_input_tokens
  );
}

/** Whether a block is a tool call. */
export function isToolUse(block: ContentBlock): block is ToolUseBlock {
  return block.type === "tool_use";
}

/** The text blocks of a message, joined. */
export function textOf(content: readonly ContentBlock[]): string {
  return content
    .map((block) => (block.type === "text" && "text" in block ? String(block.text) : ""))
    .join("");
}
