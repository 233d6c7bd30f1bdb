/** Spells a {@link ModelRequest} as Messages API parameters, with cache breakpoints where they pay. Pure. */
import type Anthropic from "@anthropic-ai/sdk";
import { type ContentBlock, isText } from "../../shared/protocol/content.ts";
import type { ModelMessage, ModelRequest } from "./model.ts";

const CACHED: Anthropic.CacheControlEphemeral = { type: "ephemeral" };

/**
 * Three breakpoints: one at the end of tools + system, which all agents of one kind share from their first call on; the
 * automatic one at the end of the conversation, which the agent's next call reads; and one where the call before ended,
 * for the API finds what was written there by itself only up to 20 blocks back, and a turn may have more tool calls.
 * Field order is fixed and other messages are passed by reference, so equal requests are equal bytes.
 */
export function toMessageParams(request: ModelRequest): Anthropic.MessageCreateParamsStreaming {
  return {
    model: request.model,
    max_tokens: request.maxTokens,
    ...(request.tools.length > 0 && {
      tools: toolParams(request),
      tool_choice: { type: request.toolChoice },
    }),
    ...(request.system !== "" && {
      system: [{ type: "text" as const, text: request.system, cache_control: CACHED }],
    }),
    messages: messageParams(request.messages),
    cache_control: CACHED,
    stream: true,
  };
}

/** Without a system prompt the last tool carries the shared breakpoint. */
function toolParams({ tools, system }: ModelRequest): Anthropic.Tool[] {
  const last = system === "" ? tools.length - 1 : -1;
  return tools.map(({ name, description, input_schema }, index) => ({
    name,
    description,
    input_schema: { ...input_schema, type: "object" },
    ...(index === last && { cache_control: CACHED }),
  }));
}

function messageParams(messages: readonly ModelMessage[]): Anthropic.MessageParam[] {
  const lastAnswer = messages.findLastIndex(({ role }) => role === "assistant");
  return messages.map((message, index) =>
    index === lastAnswer - 1 && message.role === "user" ? withBreakpoint(message) : messageParam(message),
  );
}

/** The API caches no blank text. */
function withBreakpoint({ role, content }: ModelMessage): Anthropic.MessageParam {
  const last = content.length - 1;
  const marked = content.map(
    (block, index): ContentBlock =>
      index === last && !isBlank(block) ? { ...block, cache_control: CACHED } : block,
  );
  return { role, content: marked as Anthropic.ContentBlockParam[] };
}

/** A model can answer with blank text, but the API takes none back: such blocks are left out of its messages. */
function messageParam(message: ModelMessage): Anthropic.MessageParam {
  const { role, content } = message;
  const kept =
    role === "assistant" && content.some(isBlank) ? content.filter((block) => !isBlank(block)) : content;
  return { role, content: kept as Anthropic.ContentBlockParam[] };
}

function isBlank(block: ContentBlock): boolean {
  return isText(block) && block.text.trim() === "";
}
