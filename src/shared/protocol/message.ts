/**
 * A message to an agent and its attachments: files for the workspace, and images for the model. Attachments wait in Redis
 * beside the inbox. They are deleted in the step in which the message enters the log.
 */
import { z } from "zod";
import { DRAFT_PREFIX, RequestKey } from "./ids.ts";

/** Maximum bytes (UTF-8) of one message or prompt. */
export const MESSAGE_MAX_BYTES = 256 * 1024;
/** Maximum number of unread messages in an inbox. */
export const INBOX_MAX_MESSAGES = 64;
/** Maximum bytes of the unread messages in an inbox, as stored, unless it is a single one. */
export const INBOX_MAX_BYTES = 1024 * 1024;

/** One message in an agent's inbox, as stored. */
export const InboxMessage = z.object({
  v: z.literal(1),
  message_id: RequestKey,
  text: z.string(),
  /** True if files or images came with it. */
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

// A sub-agent's question to its parent: the model's input, and its form in the record until it is answered.

/** Tool with which a sub-agent asks its parent. */
export const ASK_TOOL = "ask_parent";
/** Maximum code points of a question, and of its default answer. */
const QUESTION_MAX_CHARS = 5_000;

const words = (what: string) =>
  z
    .string()
    .refine((text) => text.trim() !== "", `the ${what} is empty`)
    .refine((text) => [...text].length <= QUESTION_MAX_CHARS, `at most ${QUESTION_MAX_CHARS} characters`);

/** Input from the model. The parent, never the model, sets how long the question waits. */
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

/** Suffix of the id of a question about a permission; the name of its call precedes it. */
const PERMISSION_MARK = "/permission";
/**
 * Matches answers that permit a call; any other answer is the reason why not. Around the word only blanks, quotes and the end
 * of a sentence: "ok?" asks back, and a word of another script may say the opposite.
 */
const PERMITS = /^[\s"'`*]*(?:allow|allowed|yes|approve|approved|ok|okay)[\s"'`*.!,]*$/i;
const SHOWN_INPUT_CHARS = 8_000;

/** Returns the question whether a call may begin. `call`: prefix of the call's log entries. */
export function permissionQuestion(call: string, tool: string, input: unknown, rule: string): OpenQuestion {
  const points = [...(JSON.stringify(input) ?? "null")];
  const cut = points.length - SHOWN_INPUT_CHARS;
  const shown = points.slice(0, SHOWN_INPUT_CHARS).join("") + (cut > 0 ? `[… ${cut} more characters]` : "");
  const text = `May ${tool} run (${rule})?\n${shown}\nAnswer "allow" or "yes"; anything else refuses it and is its reason.`;
  return { question_id: call + PERMISSION_MARK, text };
}

/** Returns true if a question asks to permit a tool call; an answer that does not permit it ({@link permits}) is the reason why not. */
export function isPermissionQuestion({ question_id }: Pick<OpenQuestion, "question_id">): boolean {
  return question_id.endsWith(PERMISSION_MARK);
}

/** Returns the call whose permission `callId` is about; undefined if it is about none. */
export function permittedCallOf(callId: string): string | undefined {
  return callId.endsWith(PERMISSION_MARK) ? callId.slice(0, -PERMISSION_MARK.length) : undefined;
}

/** Returns true if an answer permits the call. */
export function permits(answer: string): boolean {
  return PERMITS.test(answer);
}

/** Why a question gets its default: the first words of what the model reads. `none`: the person who was asked chose nothing. */
const UNANSWERED = {
  late: "No answer came in time",
  declined: "The user declined to answer",
  none: "The user gave no answer",
} as const;

/** Returns the text for the model if its question was not answered. */
export function defaultAnswerTo(
  { default_answer }: OpenQuestion,
  why: keyof typeof UNANSWERED = "late",
): string {
  return default_answer === undefined
    ? `${UNANSWERED[why]}. Go on with your best judgement, and say in your report what you assumed.`
    : `${UNANSWERED[why]}, so your default holds: ${default_answer}`;
}

/** Maximum number of files, and of images, that come with one message. */
const ATTACHED_MAX_COUNT = 64;
/** Maximum bytes of all files and images of one message, decoded (not as base64). */
export const ATTACHED_MAX_BYTES = 4 * 1024 * 1024;
/** Maximum bytes of one image: the limit of the Messages API. */
const IMAGE_MAX_BYTES = 3_750_000;
/** Maximum characters of all waiting attachments of one agent, as stored. */
export const ATTACHED_MAX_WAITING = 4 * 1024 * 1024 * 4;

const PATH_MAX_BYTES = 512;
const PATH_MAX_DEPTH = 32;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** A path below the workspace: relative, with `/` between its components, without `.` and `..`. */
const AttachedPath = z
  .string()
  .min(1)
  .refine((path) => Buffer.byteLength(path) <= PATH_MAX_BYTES, `at most ${PATH_MAX_BYTES} bytes`)
  .refine(isBelow, 'a path below the workspace, such as "data/table.csv"');

function isBelow(path: string): boolean {
  const parts = path.split("/");
  return (
    parts.length <= PATH_MAX_DEPTH &&
    !/[\p{Cc}\p{Surrogate}\\]/u.test(path) &&
    parts.every((part) => part !== "" && part !== "." && part !== ".." && !part.startsWith(DRAFT_PREFIX))
  );
}

const Base64 = z
  .string()
  .refine((text) => text.length % 4 === 0 && BASE64.test(text), "not base64 (RFC 4648, with its padding)");

/** Maximum bytes of one file that is named instead of sent. */
export const REFERENCE_MAX_BYTES = 16 * 1024 * 1024;

/** An absolute path. The worker checks that it lies in an open directory. */
const ReferencePath = z
  .string()
  .max(4_096)
  .refine(
    (path) => path.startsWith("/") && !/[\p{Cc}\p{Surrogate}]/u.test(path) && !path.split("/").includes(".."),
    'an absolute path below a directory that is open to the workers, such as "/srv/data/table.csv"',
  );

/**
 * A file for the workspace. Exactly one is set of `content` (text), `base64` (any bytes) and `from`: the path of a file, at
 * most 16 MB, that the worker copies out of a directory that is open to it.
 */
export const FileInput = z
  .strictObject({
    path: AttachedPath,
    content: z.string().optional(),
    base64: Base64.optional(),
    from: ReferencePath.optional(),
  })
  .refine(
    ({ content, base64, from }) => [content, base64, from].filter((each) => each !== undefined).length === 1,
    "give exactly one of content, base64 and from",
  );
/** See {@link FileInput}. */
export type FileInput = z.input<typeof FileInput>;

const MediaType = z.enum(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** An image for the model. Its first bytes determine its type; a different `media_type` is refused. */
export const ImageInput = z
  .strictObject({ base64: Base64, media_type: MediaType.optional() })
  .refine(({ base64 }) => bytesOf(base64) <= IMAGE_MAX_BYTES, `at most ${IMAGE_MAX_BYTES} bytes`)
  .transform(({ base64, media_type }, context) => {
    const found = mediaTypeOf(base64);
    if (found !== undefined && (media_type ?? found) === found) return { media_type: found, base64 };
    context.addIssue({
      code: "custom",
      message: found === undefined ? "neither PNG, JPEG, GIF nor WebP" : `its bytes are ${found}`,
    });
    return z.NEVER;
  });
/** See {@link ImageInput}. */
export type ImageInput = z.input<typeof ImageInput>;

/** The files of one message. */
export const FilesInput = z
  .array(FileInput)
  .max(ATTACHED_MAX_COUNT)
  .refine(arePathsDisjoint, "two files have one path, or one stands where another has its directory");
/** The images of one message. */
export const ImagesInput = z.array(ImageInput).max(ATTACHED_MAX_COUNT);

/** Attachments of a call. */
export interface AttachmentsInput {
  files?: FileInput[] | undefined;
  images?: ImageInput[] | undefined;
}

/** Returns true if all files and images that are sent are together within their limit; otherwise see {@link TOO_MUCH_ATTACHED}. */
export function fitTogether({ files = [], images = [] }: AttachmentsInput): boolean {
  const bytes = [
    ...files.map(({ content, base64 = "" }) =>
      content === undefined ? bytesOf(base64) : Buffer.byteLength(content),
    ),
    ...images.map(({ base64 }) => bytesOf(base64)),
  ];
  return bytes.reduce((sum, each) => sum + each, 0) <= ATTACHED_MAX_BYTES;
}
/** Error text for attachments that {@link fitTogether} rejects. */
export const TOO_MUCH_ATTACHED = `files and images have more than ${ATTACHED_MAX_BYTES / 1024 ** 2} MB together: open a directory to the workers and name its files (from) for more`;

/** Attachments as stored in Redis under {@link attachmentKey}. */
export const Attached = z.object({
  v: z.literal(1),
  files: z.array(
    z.object({
      path: z.string(),
      content: z.string().optional(),
      base64: z.string().optional(),
      from: z.string().optional(),
    }),
  ),
  images: z.array(z.object({ media_type: MediaType, base64: z.string() })),
});
/** See {@link Attached}. */
export type Attached = z.infer<typeof Attached>;

/** Returns the attachments as stored; undefined if there are none. */
export function attachedText({ files = [], images = [] }: Partial<Omit<Attached, "v">>): string | undefined {
  if (files.length + images.length === 0) return undefined;
  return JSON.stringify({ v: 1, files, images } satisfies Attached);
}

/** Returns the name under which a message's attachments are stored; without a message id, those of the spawn. */
export function attachmentKey(messageId?: string): string {
  return messageId === undefined ? "spawn" : `message:${messageId}`;
}

/** Returns true if no path equals another one or is a directory of it. */
function arePathsDisjoint(files: readonly { path: string }[]): boolean {
  const paths = new Set(files.map(({ path }) => path));
  return (
    paths.size === files.length &&
    files.every(({ path }) => {
      for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1))
        if (paths.has(path.slice(0, at))) return false;
      return true;
    })
  );
}

function bytesOf(base64: string): number {
  return (base64.length / 4) * 3 - (base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0);
}

/** Returns the media type that the first bytes of an image show; undefined if they show none. */
function mediaTypeOf(base64: string): z.infer<typeof MediaType> | undefined {
  const head = Buffer.from(base64.slice(0, 16), "base64").toString("latin1");
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("GIF87a") || head.startsWith("GIF89a")) return "image/gif";
  if (head.startsWith("RIFF") && head.slice(8) === "WEBP") return "image/webp";
  return undefined;
}
