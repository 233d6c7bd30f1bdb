/**
 * Schemas for answers of MCP servers: few fields, and few parts of each. The SDK's schemas report every error in a long
 * answer, which can take more memory than a worker has. These schemas stop at a bound.
 */
import { z } from "zod";
import { clip } from "../../../shared/protocol/text.ts";

/** Longest text of a result, before it is cut to the limit of a tool result. */
const MAX_RESULT_CHARS = 1024 * 1024;
const MAX_PARTS = 1_000;

const List = z.custom<readonly unknown[]>((value) => Array.isArray(value), "is no list");

/** One page of a list of tools. */
export const ListedPage = z.object({ tools: List, nextCursor: z.string().optional() });

/** One tool of a list. */
export const ListedTool = z.object({
  name: z.string(),
  title: z.string().optional(),
  description: z.string().optional(),
  inputSchema: z.looseObject({ type: z.literal("object") }),
  annotations: z.object({ readOnlyHint: z.boolean().optional() }).optional(),
});
/** See {@link ListedTool}. */
export type ListedTool = z.output<typeof ListedTool>;

const Part = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({
    type: z.literal("resource"),
    resource: z.object({ uri: z.string(), text: z.string().optional() }),
  }),
  z.object({ type: z.literal("resource_link"), name: z.string(), uri: z.string() }),
  z.object({ type: z.enum(["image", "audio"]), mimeType: z.string() }),
]);
type Part = z.output<typeof Part>;

/** Result of a tool call: its first 1,000 parts, and a note with the number of further parts. */
export const CallResult = z.object({
  content: List.transform((parts) => {
    const more = parts.length - MAX_PARTS;
    return more <= 0
      ? parts
      : [...parts.slice(0, MAX_PARTS), { type: "text", text: `[${more} more parts: not shown]` }];
  })
    .pipe(z.array(Part))
    .default([]),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional(),
});
/** See {@link CallResult}. */
export type CallResult = z.output<typeof CallResult>;

/** Returns the text of a result; other parts become a note about their type. */
export function textOf({ content, structuredContent }: CallResult): string {
  let text = "";
  for (const part of content) {
    if (text.length > MAX_RESULT_CHARS) break;
    const said = partText(part);
    text += text === "" ? said : `\n${said}`;
  }
  if (text === "" && structuredContent !== undefined) text = JSON.stringify(structuredContent);
  return clip(text, MAX_RESULT_CHARS);
}

function partText(part: Part): string {
  switch (part.type) {
    case "text":
      return part.text;
    case "resource":
      return part.resource.text ?? `[${part.resource.uri}: not text]`;
    case "resource_link":
      return `[${part.name}: ${part.uri}]`;
    default:
      return `[${part.type}, ${part.mimeType}: not shown]`;
  }
}
