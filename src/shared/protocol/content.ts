/** Content of a conversation, in the terms of the Messages API: blocks are stored and sent back unchanged. */
import { z } from "zod";

/** A JSON object: tool inputs and tool input schemas. */
export const JsonObject = z.record(z.string(), z.unknown());
/** A JSON object: tool inputs and tool input schemas. */
export type JsonObject = z.infer<typeof JsonObject>;

/** Returns whether a value is a JSON object. Cheaper than parsing it: it looks at none of its fields. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns an object without its null fields, which models and foreign callers use for omitted ones. Anything else unchanged. */
export function withoutNulls(value: unknown): unknown {
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null));
}

/** Text from the user or the model. Extra fields (citations, …) are kept. */
export const TextBlock = z.looseObject({ type: z.literal("text"), text: z.string() });
/** Text from the user or the model. */
export type TextBlock = z.infer<typeof TextBlock>;

/** A tool call of the model. `id` pairs it with exactly one {@link ToolResultBlock}. */
export const ToolUseBlock = z.looseObject({
  type: z.literal("tool_use"),
  id: z.string().min(1),
  name: z.string(),
  input: JsonObject,
});
/** A tool call of the model. */
export type ToolUseBlock = z.infer<typeof ToolUseBlock>;

/** Result of a tool. `is_error` marks a result that tells the model what to do differently. */
export const ToolResultBlock = z.looseObject({
  type: z.literal("tool_result"),
  tool_use_id: z.string().min(1),
  content: z.string(),
  is_error: z.boolean().optional(),
});
/** Result of a tool. */
export type ToolResultBlock = z.infer<typeof ToolResultBlock>;

const INTERPRETED: readonly string[] = ["text", "tool_use", "tool_result"];

/** Any block this product does not interpret (thinking and its signature, server tools, …): carried verbatim. */
const OpaqueBlock = z.looseObject({
  type: z
    .string()
    .min(1)
    .refine((type) => !INTERPRETED.includes(type), "a text, tool_use or tool_result block with wrong fields"),
});
/** Any block this product does not interpret: carried verbatim. */
export type OpaqueBlock = z.infer<typeof OpaqueBlock>;

/** One block of a message. Narrow with {@link isText} and its siblings: `type` alone does not exclude opaque blocks. */
export const ContentBlock = z.union([TextBlock, ToolUseBlock, ToolResultBlock, OpaqueBlock]);
/** One block of a message. */
export type ContentBlock = z.infer<typeof ContentBlock>;

/** Returns true if `block` is a {@link TextBlock}. */
export function isText(block: ContentBlock): block is TextBlock {
  return block.type === "text";
}

/** Returns true if `block` is a {@link ToolUseBlock}. */
export function isToolUse(block: ContentBlock): block is ToolUseBlock {
  return block.type === "tool_use";
}

/** Returns true if `block` is a {@link ToolResultBlock}. */
export function isToolResult(block: ContentBlock): block is ToolResultBlock {
  return block.type === "tool_result";
}

const tokens = z.int().nonnegative();

/**
 * Tokens of one model call, or a sum of several. The four counts are disjoint: `input_tokens` excludes tokens that were read
 * from or written to the prompt cache.
 */
export const Usage = z.object({
  input_tokens: tokens,
  output_tokens: tokens,
  cache_read_input_tokens: tokens,
  cache_creation_input_tokens: tokens,
});
/** Tokens of one model call, or a sum of several. */
export type Usage = z.infer<typeof Usage>;

/** The counts of a stored usage, in their order. */
export const STORED_COUNTS = [
  "input_tokens",
  "output_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
] as const satisfies (keyof Usage)[];

/** A {@link Usage} as stored with every turn: a list of {@link STORED_COUNTS}; counts missing at its end are 0. */
export const StoredUsage = z
  .array(tokens)
  .max(STORED_COUNTS.length)
  .transform(([input_tokens = 0, output_tokens = 0, read = 0, written = 0]): Usage => {
    return {
      input_tokens,
      output_tokens,
      cache_read_input_tokens: read,
      cache_creation_input_tokens: written,
    };
  });

/** Returns `usage` in the spelling of {@link StoredUsage}. */
export function usageText(usage: Usage): string {
  const { input_tokens, output_tokens, cache_read_input_tokens: read, cache_creation_input_tokens } = usage;
  const written = cache_creation_input_tokens > 0 ? `,${cache_creation_input_tokens}` : "";
  return `[${input_tokens},${output_tokens}${read > 0 || written ? `,${read}` : ""}${written}]`;
}

/** Zero usage: the neutral element of {@link addUsage}. */
export const ZERO_USAGE: Usage = Object.freeze({
  input_tokens: 0,
  output_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
});

/** Returns the sum of two usages; does not change its arguments. */
export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    cache_read_input_tokens: a.cache_read_input_tokens + b.cache_read_input_tokens,
    cache_creation_input_tokens: a.cache_creation_input_tokens + b.cache_creation_input_tokens,
  };
}

/** Returns the tokens of the prompt as the provider counts them: plain input, cache reads and cache writes. */
export function promptTokens(usage: Usage): number {
  return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
}

/** Returns all tokens, prompt and output, as a total-token cap counts them. */
export function totalTokens(usage: Usage): number {
  return promptTokens(usage) + usage.output_tokens;
}

/** Returns the text of a message: its text blocks, joined. */
export function textOf(content: readonly ContentBlock[]): string {
  let text = "";
  for (const block of content) if (isText(block)) text += block.text;
  return text;
}
