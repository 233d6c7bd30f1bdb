/**
 * What a message brings besides its text: files for the agent's workspace, and images for its model. They wait in Redis beside
 * the inbox, and are deleted in the step in which the message enters the log.
 */
import { z } from "zod";
import { DRAFT_PREFIX } from "./workspace.ts";

/** Most files, and most images, that come with one message. */
const ATTACHED_MAX_COUNT = 64;
/** Most bytes of all files and images of one message, as they are (not as base64 spells them). */
export const ATTACHED_MAX_BYTES = 4 * 1024 * 1024;
/** Most bytes of one image: what the Messages API takes. */
const IMAGE_MAX_BYTES = 3_750_000;
/** Most characters of what waits to be taken, of all messages of one agent, as it is stored. */
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

/** Most bytes of one file that is named instead of sent. */
export const REFERENCE_MAX_BYTES = 16 * 1024 * 1024;

/** An absolute path; whether it lies in a directory that is open to the worker, the worker says. */
const ReferencePath = z
  .string()
  .max(4_096)
  .refine(
    (path) => path.startsWith("/") && !/[\p{Cc}\p{Surrogate}]/u.test(path) && !path.split("/").includes(".."),
    'an absolute path below a directory that is open to the workers, such as "/srv/data/table.csv"',
  );

/**
 * A file for the workspace: `content` is text, `base64` any bytes, `from` the path of a file that the worker copies out of a
 * directory that is open to it, at most 16 MB; exactly one of them.
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

/** An image for the model. Its first bytes say what it is; a `media_type` that says otherwise is refused. */
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
  .refine(areApart, "two files have one path, or one stands where another has its directory");
/** The images of one message. */
export const ImagesInput = z.array(ImageInput).max(ATTACHED_MAX_COUNT);

/** What a call may bring besides its text. */
export interface AttachmentsInput {
  files?: FileInput[] | undefined;
  images?: ImageInput[] | undefined;
}

/** Whether all files and images that are sent are together within their bound; the sentence says what to do where they are not. */
export function fitTogether({ files = [], images = [] }: AttachmentsInput): boolean {
  const bytes = [
    ...files.map(({ content, base64 = "" }) =>
      content === undefined ? bytesOf(base64) : Buffer.byteLength(content),
    ),
    ...images.map(({ base64 }) => bytesOf(base64)),
  ];
  return bytes.reduce((sum, each) => sum + each, 0) <= ATTACHED_MAX_BYTES;
}
/** What is wrong where {@link fitTogether} says no. */
export const TOO_MUCH_ATTACHED = `files and images have more than ${ATTACHED_MAX_BYTES / 1024 ** 2} MB together: open a directory to the workers and name its files (from) for more`;

/** What waits in Redis under {@link attachedTo}. */
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

/** As it is stored; undefined where there is nothing to store. */
export function attachedText({ files = [], images = [] }: Partial<Omit<Attached, "v">>): string | undefined {
  if (files.length + images.length === 0) return undefined;
  return JSON.stringify({ v: 1, files, images } satisfies Attached);
}

/** The name under which waits what came with a message; without one, with the spawn. */
export function attachedTo(messageId?: string): string {
  return messageId === undefined ? "spawn" : `message:${messageId}`;
}

/** Two paths may stand side by side when neither is the other nor a directory of it. */
function areApart(files: readonly { path: string }[]): boolean {
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

/** What the first bytes of an image say it is. */
function mediaTypeOf(base64: string): z.infer<typeof MediaType> | undefined {
  const head = Buffer.from(base64.slice(0, 16), "base64").toString("latin1");
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("GIF87a") || head.startsWith("GIF89a")) return "image/gif";
  if (head.startsWith("RIFF") && head.slice(8) === "WEBP") return "image/webp";
  return undefined;
}
