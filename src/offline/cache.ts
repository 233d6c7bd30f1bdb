/** What identifies a request and what it weighs: hashes and token estimates, from one serialisation per message. Pure. */
import { createHash } from "node:crypto";
import { type CountTokensRequest, isText, type Message, marksCache, type TokenUsage } from "./wire.ts";

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

/** What stands between two boundaries. */
interface Segment {
  text: string;
  blocks: number;
  /** Whether something in it asks to be cached. */
  isMarked: boolean;
}

/** `marksEnd`: the end of the last segment is a breakpoint whatever is in it. */
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
// Owns: which prefixes were written, and when they were last used. Its neighbour `fingerprint` says what a prefix is.
//
// Invariants:
// 1. Only prefixes that end at a breakpoint are written; what may be read ends at a breakpoint or a few blocks before.
// 2. A prefix lives for `ttlMs` after its last use, and at most `maxEntries` are kept, the least recently used going first.
// 3. Read, written and uncached input tokens add up to the whole input.

/** Options of the cache. */
export interface PromptCacheOptions {
  /** How long an unused prefix stays, in milliseconds. Default 5 minutes. */
  ttlMs?: number;
  /** How many prefixes are kept. Default 20,000. */
  maxEntries?: number;
  /** The present time in milliseconds. Default `Date.now`. */
  now?: () => number;
}

/** The input side of a call's usage. */
export type InputUsage = Omit<TokenUsage, "output_tokens">;

/** See the module header. */
export interface PromptCache {
  /** Splits the input of a request into read, written and uncached tokens, and remembers what was written. */
  charge(request: Pick<Fingerprint, "prefixes" | "inputTokens">): InputUsage;
}

const FIVE_MINUTES_MS = 300_000;
/** So many blocks before a breakpoint the API looks for something that was written. */
const LOOKBACK_BLOCKS = 20;

/** Creates an empty cache. Unlike the real one it has no minimum prefix length, so that small tests see it work. */
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
