/** A message on its way to an agent. */
import { z } from "zod";
import { RequestKey } from "./ids.ts";

/** Most bytes (UTF-8) of one message or prompt. */
export const MESSAGE_MAX_BYTES = 256 * 1024;
/** Most nesting levels of any JSON that a caller hands in. */
export const JSON_MAX_DEPTH = 32;
/** Most messages that may wait unread in an inbox. */
export const INBOX_MAX_MESSAGES = 64;
/** Most bytes that may wait unread in an inbox. */
export const INBOX_MAX_BYTES = 1024 * 1024;

/** One message in an agent's inbox, as stored. */
export const InboxMessage = z.object({
  v: z.literal(1),
  message_id: RequestKey,
  text: z.string(),
  /** Files or images came with it. */
  attached: z.boolean().optional(),
});
/** See {@link InboxMessage}. */
export type InboxMessage = z.infer<typeof InboxMessage>;

/** The text of a message or prompt: not blank, at most 256 KB of UTF-8. */
export const MessageText = z
  .string()
  .refine((text) => text.trim() !== "", "write what the sub-agent should do or know")
  .refine(
    (text) => Buffer.byteLength(text) <= MESSAGE_MAX_BYTES,
    `at most ${MESSAGE_MAX_BYTES / 1024} KB: put long material into a file and name it`,
  );

/** How deep a JSON value nests; stops counting at `limit + 1`, so hostile input costs nothing. */
export function depthOf(value: unknown, limit: number = JSON_MAX_DEPTH): number {
  if (value === null || typeof value !== "object") return 0;
  if (limit <= 0) return 1;
  let deepest = 0;
  for (const child of Object.values(value)) {
    deepest = Math.max(deepest, depthOf(child, limit - 1));
    if (deepest >= limit) break;
  }
  return deepest + 1;
}

// A sub-agent's question to its parent: what the model may give, and what stands in the record until it is answered.

/** The tool by which a sub-agent asks. */
export const ASK_TOOL = "ask_parent";
/** Most code points of a question, and of the default answer that comes with it. */
const QUESTION_MAX_CHARS = 5_000;

const words = (what: string) =>
  z
    .string()
    .refine((text) => text.trim() !== "", `the ${what} is empty`)
    .refine((text) => [...text].length <= QUESTION_MAX_CHARS, `at most ${QUESTION_MAX_CHARS} characters`);

/** What the model gives. How long the question waits is its parent's to say, never the model's. */
export const QuestionInput = z.object({
  question: words("question").describe("Complete: your parent does not see this conversation"),
  default_answer: words("default answer").optional().describe("Holds if no answer comes in time"),
});
/** See {@link QuestionInput}. */
export type QuestionInput = z.infer<typeof QuestionInput>;

/** A question that waits for its answer. `question_id`: `<message>/<tool_use_id>`, unique within its agent. */
export const OpenQuestion = z.object({
  question_id: z.string(),
  text: z.string(),
  default_answer: z.string().optional(),
});
/** See {@link OpenQuestion}. */
export type OpenQuestion = z.infer<typeof OpenQuestion>;

/** What the id of a question about a permission has behind the name of its call. */
const PERMISSION_MARK = "/permission";
/** The answers that permit a call; any other is the reason why not. */
const PERMITS = /^\W*(?:allow|allowed|yes|approve|approved|ok|okay)\W*$/i;
const SHOWN_INPUT_CHARS = 8_000;

/** The question whether a call may begin. `call`: what its log entries begin with. */
export function permissionQuestion(call: string, tool: string, input: unknown, rule: string): OpenQuestion {
  const points = [...(JSON.stringify(input) ?? "null")];
  const cut = points.length - SHOWN_INPUT_CHARS;
  const shown = points.slice(0, SHOWN_INPUT_CHARS).join("") + (cut > 0 ? `[… ${cut} more characters]` : "");
  const text = `May ${tool} run (${rule})?\n${shown}\nAnswer "allow"; anything else refuses it and is its reason.`;
  return { question_id: call + PERMISSION_MARK, text };
}

/** Whether a question asks for the permission of a tool call: "allow" permits it, any other answer is the reason why not. */
export function isPermissionQuestion({ question_id }: Pick<OpenQuestion, "question_id">): boolean {
  return question_id.endsWith(PERMISSION_MARK);
}

/** The call whose permission `callId` is about; undefined for an id that is about none. */
export function permittedCallOf(callId: string): string | undefined {
  return callId.endsWith(PERMISSION_MARK) ? callId.slice(0, -PERMISSION_MARK.length) : undefined;
}

/** Whether an answer permits the call that was asked for. */
export function permits(answer: string): boolean {
  return PERMITS.test(answer);
}

/** What the model reads when its parent did not answer in time. */
export function defaultAnswerTo({ default_answer }: OpenQuestion): string {
  return default_answer === undefined
    ? "No answer came in time. Go on with your best judgement, and say in your report what you assumed."
    : `No answer came in time, so your default holds: ${default_answer}`;
}
