/** The identity and size of a request: hashes and token estimates, from one serialisation per message. Pure. */
import { createHash } from "node:crypto";
import { type CountTokensRequest, isText, type Message, marksCache, type TokenUsage } from "./wire.ts";

/**
 * A prefix of the request that ends at a boundary: after the tools, after the system prompt, after message n.
 * `hash`, `tokens` and `blocks` cover all content up to the boundary; `breakpoint`: the request has a cache marker there.
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
  /** Hash of the messages without cache markers: equal if the same turn is requested again. */
  requestHash: string;
  /** Number of assistant messages in the request: the index of the requested turn. */
  turn: number;
  /** All prefixes, shortest first; the last one covers the whole input. */
  prefixes: readonly Prefix[];
  /** Estimated input tokens of the whole request, without regard to caching. */
  inputTokens: number;
}

const BYTES_PER_TOKEN = 4;

/** Estimates the tokens of a text: a quarter of its UTF-8 bytes, rounded up. */
export function estimateTokens(text: string): number {
  return tokensOf(Buffer.byteLength(text));
}

/** Returns a short stable hash of the parts; `("ab", "c")` and `("a", "bc")` differ. */
export function digest(...parts: string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 24);
}

/** Returns the system prompt as one text. */
export function systemText(request: Pick<CountTokensRequest, "system">): string {
  const { system } = request;
  return typeof system === "string" ? system : (system ?? []).map((block) => block.text).join("\n\n");
}

/** Returns all text blocks of a message as one text. */
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
  const segments: Segment[] = [
    { text: tools, blocks: request.tools?.length ?? 0, isMarked: (request.tools ?? []).some(marksCache) },
    {
      text: system,
      blocks: typeof request.system === "string" ? 1 : systemBlocks.length,
      isMarked: systemBlocks.some(marksCache),
    },
    ...request.messages.map(({ content }, index) => ({
      text: messages[index] ?? "",
      blocks: content.length,
      isMarked: content.some(marksCache),
    })),
  ];
  const prefixes = chain(request.model, segments, marksCache(request));
  return {
    conversation: digest(system, firstUser === undefined ? "" : messageText(firstUser)),
    requestHash: digest(...messages),
    turn: request.messages.filter((message) => message.role === "assistant").length,
    prefixes,
    inputTokens: prefixes.at(-1)?.tokens ?? 0,
  };
}

/** The content between two boundaries. */
interface Segment {
  text: string;
  blocks: number;
  /** True if it has a cache marker. */
  isMarked: boolean;
}

/** Returns the prefixes that the segments form; `marksEnd`: the end of the last segment is a breakpoint in any case. */
function chain(model: string, segments: readonly Segment[], marksEnd: boolean): Prefix[] {
  let hash = digest(model);
  let bytes = 0;
  let blocks = 0;
  return segments.map((segment, index) => {
    hash = digest(hash, segment.text);
    bytes += Buffer.byteLength(segment.text);
    blocks += segment.blocks;
    const breakpoint = segment.isMarked || (marksEnd && index === segments.length - 1);
    return { hash, tokens: tokensOf(bytes), blocks, breakpoint };
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

// The simulated prompt cache.
//
// Owns the written prefixes and the times of their last use. `fingerprint` computes prefixes.
//
// Invariants:
// 1. Only prefixes that end at a breakpoint are written; a prefix is read if it ends at a breakpoint or a few blocks before.
// 2. A prefix lives for `ttlMs` after its last use; at most `maxEntries` are kept, the least recently used is removed first.
// 3. Read, written and uncached input tokens add up to the whole input.

/** Options of the cache. */
export interface PromptCacheOptions {
  /** Lifetime of an unused prefix, in milliseconds. Default 5 minutes. */
  ttlMs?: number;
  /** Maximum number of prefixes. Default 20,000. */
  maxEntries?: number;
  /** Returns the current time in milliseconds. Default `Date.now`. */
  now?: () => number;
}

/** The input side of a call's usage. */
export type InputUsage = Omit<TokenUsage, "output_tokens">;

/** The simulated prompt cache. */
export interface PromptCache {
  /** Splits the input of a request into read, written and uncached tokens, and stores the written prefixes. */
  charge(request: Pick<Fingerprint, "prefixes" | "inputTokens">): InputUsage;
}

const FIVE_MINUTES_MS = 300_000;
/** Number of blocks before a breakpoint within which the API searches for a written prefix. */
const LOOKBACK_BLOCKS = 20;

/** Creates an empty cache. Unlike the real one it has no minimum prefix length, so that small tests can use it. */
export function createPromptCache(options: PromptCacheOptions = {}): PromptCache {
  const { ttlMs = FIVE_MINUTES_MS, maxEntries = 20_000, now = Date.now } = options;
  const lastUsed = new Map<string, number>();

  const touch = (prefix: Prefix): void => {
    lastUsed.delete(prefix.hash);
    lastUsed.set(prefix.hash, now());
    const oldest = lastUsed.keys().next();
    if (lastUsed.size > maxEntries && !oldest.done) lastUsed.delete(oldest.value);
  };
  const isWarm = (prefix: Prefix): boolean => {
    const usedAt = lastUsed.get(prefix.hash);
    return usedAt !== undefined && now() - usedAt < ttlMs;
  };

  return {
    charge({ prefixes, inputTokens }) {
      const end = prefixes.findLastIndex((prefix) => prefix.breakpoint);
      const cacheable = prefixes.slice(0, end + 1);
      const ends = cacheable.filter(({ breakpoint }) => breakpoint).map(({ blocks }) => blocks);
      const isLookedAt = ({ blocks }: Prefix) =>
        ends.some((at) => blocks <= at && at - blocks <= LOOKBACK_BLOCKS);
      const warm = cacheable.findLast((prefix) => isLookedAt(prefix) && isWarm(prefix));
      if (warm !== undefined) touch(warm);
      for (const prefix of cacheable) if (prefix.breakpoint) touch(prefix);
      const read = warm?.tokens ?? 0;
      const cached = cacheable.at(-1)?.tokens ?? 0;
      return {
        input_tokens: inputTokens - cached,
        cache_read_input_tokens: read,
        cache_creation_input_tokens: cached - read,
      };
    },
  };
}
