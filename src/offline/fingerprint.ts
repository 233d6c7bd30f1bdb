/** What identifies a request and what it weighs: hashes and token estimates, from one serialisation per message. Pure. */
import { createHash } from "node:crypto";
import { type CountTokensRequest, isText, type Message, marksCache } from "./wire.ts";

/**
 * A prefix of the request that ends at a boundary: after the tools, after the system prompt, after message n.
 * `hash` covers everything up to the boundary, `tokens` and `blocks` count it, `breakpoint` says that the request asks
 * to cache it.
 */
export interface Prefix {
  hash: string;
  tokens: number;
  /** Tools, blocks of the system prompt and content blocks. */
  blocks: number;
  breakpoint: boolean;
}

/** The identity of one request. */
export interface Fingerprint {
  /** Hash of the system prompt and the first user text: the same for every turn of a conversation. */
  conversation: string;
  /** Hash of the messages, cache markers left out: the same when the very same turn is asked for again. */
  requestHash: string;
  /** Number of assistant messages in the request: the index of the turn that is being asked for. */
  turn: number;
  /** All prefixes, shortest first; the last one covers the whole input. */
  prefixes: readonly Prefix[];
  /** Estimated input tokens of the whole request, caching left aside. */
  inputTokens: number;
}

const BYTES_PER_TOKEN = 4;

/** Estimated tokens of a text: a quarter of its UTF-8 bytes, rounded up. */
export function estimateTokens(text: string): number {
  return tokensOf(Buffer.byteLength(text));
}

/** A short stable hash of the given parts; parts are kept apart. */
export function digest(...parts: string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 24);
}

/** The system prompt as one text. */
export function systemText(request: Pick<CountTokensRequest, "system">): string {
  const { system } = request;
  return typeof system === "string" ? system : (system ?? []).map((block) => block.text).join("\n\n");
}

/** All text blocks of a message as one text. */
export function messageText(message: Message): string {
  return message.content
    .filter(isText)
    .map((block) => block.text)
    .join("\n");
}

/** Computes the fingerprint of a request. */
export function fingerprint(request: CountTokensRequest): Fingerprint {
  const tools = (request.tools ?? []).map((tool) => JSON.stringify(unmarked(tool))).join("\n");
  const system = systemText(request);
  const messages = request.messages.map(serialise);
  const firstUser = request.messages.find((message) => message.role === "user");
  const systemBlocks = typeof request.system === "string" ? [] : (request.system ?? []);
  const marks = [
    (request.tools ?? []).some(marksCache),
    systemBlocks.some(marksCache),
    ...request.messages.map((message) => message.content.some(marksCache)),
  ];
  if (marksCache(request)) marks[marks.length - 1] = true;
  const sizes = [
    request.tools?.length ?? 0,
    typeof request.system === "string" ? 1 : systemBlocks.length,
    ...request.messages.map(({ content }) => content.length),
  ];
  const prefixes = chain(request.model, [tools, system, ...messages], sizes, marks);
  return {
    conversation: digest(system, firstUser === undefined ? "" : messageText(firstUser)),
    requestHash: digest(...messages),
    turn: request.messages.filter((message) => message.role === "assistant").length,
    prefixes,
    inputTokens: prefixes.at(-1)?.tokens ?? 0,
  };
}

function chain(
  model: string,
  segments: readonly string[],
  sizes: readonly number[],
  marks: readonly boolean[],
): Prefix[] {
  let hash = digest(model);
  let bytes = 0;
  let blocks = 0;
  return segments.map((segment, index) => {
    hash = digest(hash, segment);
    bytes += Buffer.byteLength(segment);
    blocks += sizes[index] ?? 0;
    return { hash, tokens: tokensOf(bytes), blocks, breakpoint: marks[index] === true };
  });
}

function serialise(message: Message): string {
  return JSON.stringify([message.role, message.content.map(unmarked)]);
}

function unmarked<T extends { [key: string]: unknown }>(carrier: T): T {
  return "cache_control" in carrier ? { ...carrier, cache_control: undefined } : carrier;
}

function tokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}
