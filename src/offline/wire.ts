/** The parts of the Messages API's wire format that the offline model reads and writes. Pure. */
import { z } from "zod";

const CacheControl = z.looseObject({ type: z.literal("ephemeral") });
const ToolName = z
  .string()
  .regex(/^[a-zA-Z0-9_-]{1,128}$/, "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'");
const SpokenText = z
  .string()
  .min(1, "text content blocks must be non-empty")
  .regex(/\S/, "text content blocks must contain non-whitespace text");

/** A text block of a request. Empty and whitespace-only texts are rejected, as by the real API. */
export const TextBlock = z.looseObject({ type: z.literal("text"), text: SpokenText });
/** A tool call of the assistant earlier in the conversation. */
export const ToolUseBlock = z.looseObject({
  type: z.literal("tool_use"),
  id: z.string().regex(/^[a-zA-Z0-9_-]+$/, "String should match pattern '^[a-zA-Z0-9_-]+$'"),
  name: ToolName,
  input: z.record(z.string(), z.unknown(), "Input should be a valid dictionary"),
});
/** The result of a tool call; `content` may be text, blocks, or absent. */
export const ToolResultBlock = z.looseObject({
  type: z.literal("tool_result"),
  tool_use_id: z.string().regex(/^[a-zA-Z0-9_-]+$/, "String should match pattern '^[a-zA-Z0-9_-]+$'"),
  content: z
    .union([z.string(), z.array(z.looseObject({ type: z.string(), text: SpokenText.optional() }))])
    .optional(),
  is_error: z.boolean().optional(),
});
/** Any other block (thinking, image, …): kept unchanged, never interpreted. */
export type OtherBlock = { type: string; [key: string]: unknown };
/** One block of a message. The `is…` guards below distinguish them. */
export type Block =
  | z.infer<typeof TextBlock>
  | z.infer<typeof ToolUseBlock>
  | z.infer<typeof ToolResultBlock>
  | OtherBlock;

const INTERPRETED = new Map<string, z.ZodType<Block>>([
  ["text", TextBlock],
  ["tool_use", ToolUseBlock],
  ["tool_result", ToolResultBlock],
]);

const AnyBlock = z.looseObject({ type: z.string() }).transform((block, context): Block => {
  const parsed = INTERPRETED.get(block.type)?.safeParse(block);
  if (parsed === undefined || parsed.success) return block;
  for (const issue of parsed.error.issues) {
    context.addIssue({ code: "custom", message: issue.message, path: issue.path });
  }
  return z.NEVER;
});

/** Returns true for a text block. */
export const isText = (block: Block): block is z.infer<typeof TextBlock> => block.type === "text";
/** Returns true for a tool call. */
export const isToolUse = (block: Block): block is z.infer<typeof ToolUseBlock> => block.type === "tool_use";
/** Returns true for a tool result. */
export const isToolResult = (block: Block): block is z.infer<typeof ToolResultBlock> =>
  block.type === "tool_result";

/** Returns true if a block, tool or request has a cache breakpoint. */
export const marksCache = (carrier: { [key: string]: unknown }): boolean =>
  carrier.cache_control !== undefined && carrier.cache_control !== null;

/** One message; a plain string becomes one text block. */
export const Message = z.looseObject({
  role: z.enum(["user", "assistant", "system"]),
  content: z.union([z.string(), z.array(AnyBlock)]).transform((content): Block[] => {
    if (typeof content !== "string") return content;
    return content === "" ? [] : [{ type: "text", text: content }];
  }),
});
/** A parsed message; its content is always a list of blocks. */
export type Message = z.infer<typeof Message>;

/** A tool in the request. Server tools have a `type` and no schema. */
const OfferedTool = z.looseObject({
  name: ToolName,
  type: z.string().nullish(),
  description: z.string().optional(),
  input_schema: z.looseObject({ type: z.literal("object", "Input should be 'object'") }).optional(),
});

/** The tool choice of the request; default: `auto`. */
const ToolChoice = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("auto"), disable_parallel_tool_use: z.boolean().optional() }),
  z.strictObject({ type: z.literal("any"), disable_parallel_tool_use: z.boolean().optional() }),
  z.strictObject({
    type: z.literal("tool"),
    name: ToolName,
    disable_parallel_tool_use: z.boolean().optional(),
  }),
  z.strictObject({ type: z.literal("none") }),
]);

const Conversation = {
  model: z.string().min(1, "String should have at least 1 character"),
  messages: z.array(Message).min(1, "at least one message is required"),
  system: z.union([z.string(), z.array(TextBlock)]).optional(),
  tools: z.array(OfferedTool).optional(),
  tool_choice: ToolChoice.optional(),
  cache_control: CacheControl.nullish(),
  output_config: z
    .looseObject({
      format: z.looseObject({ type: z.literal("json_schema"), schema: z.looseObject({}) }).nullish(),
    })
    .optional(),
  speed: z.string().nullish(),
  thinking: z.looseObject({}).optional(),
  user_profile_id: z.string().optional(),
  workspace_id: z.string().optional(),
};

/** Body of `POST /v1/messages`. Unknown top-level fields are rejected, as by the real API. */
export const MessagesRequest = z.strictObject({
  ...Conversation,
  max_tokens: z.int("Input should be a valid integer").min(1, "Input should be greater than or equal to 1"),
  stream: z.boolean().optional(),
  stop_sequences: z
    .array(z.string().regex(/\S/, "each stop sequence must contain non-whitespace"))
    .optional(),
  container: z.unknown().optional(),
  diagnostics: z.unknown().optional(),
  inference_geo: z.string().nullish(),
  metadata: z.looseObject({}).optional(),
  service_tier: z.string().optional(),
  temperature: z.number().min(0).max(1).optional(),
  top_k: z.int().optional(),
  top_p: z.number().optional(),
});
/** A parsed body of `POST /v1/messages`. */
export type MessagesRequest = z.infer<typeof MessagesRequest>;

/** Body of `POST /v1/messages/count_tokens`. */
export const CountTokensRequest = z.strictObject(Conversation);
/** A parsed body of `POST /v1/messages/count_tokens`. */
export type CountTokensRequest = z.infer<typeof CountTokensRequest>;

/** The four disjoint token counts of one call: their sum is the call's total tokens. */
export const TokenUsage = z.strictObject({
  input_tokens: z.int().min(0),
  output_tokens: z.int().min(0),
  cache_read_input_tokens: z.int().min(0),
  cache_creation_input_tokens: z.int().min(0),
});
/** Parsed token counts. */
export type TokenUsage = z.infer<typeof TokenUsage>;

/** An assistant message that the server sends. `stop_reason` is any text, so that scripts can play unknown ones. */
export interface AnswerMessage {
  id: string;
  type: "message";
  role: "assistant";
  model: string;
  content: OtherBlock[];
  container: null;
  diagnostics: null;
  stop_reason: string;
  stop_sequence: string | null;
  stop_details: { type: "refusal"; category: null; explanation: null } | null;
  usage: TokenUsage & {
    cache_creation: { ephemeral_5m_input_tokens: number; ephemeral_1h_input_tokens: number };
    inference_geo: null;
    output_tokens_details: null;
    server_tool_use: null;
    service_tier: "standard";
    speed: null;
  };
}
