/**
 * What is read of the answers of MCP servers: few fields, and few parts of each. The schemas of the SDK say of each part of a long
 * answer what is wrong with it, in more memory than a worker has; these stop at a bound, and need no second look at what they leave.
 */
import { z } from "zod";
import { clip } from "../../../shared/protocol/text.ts";

/** Text of one result before it is cut to what a tool may return. */
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

/** What a call of a tool came to; behind the first 1,000 parts one that says how many more there were. */
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

/** Text as it is; of anything else what it is. */
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
