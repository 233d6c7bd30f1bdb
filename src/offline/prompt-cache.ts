/**
 * The simulated prompt cache.
 *
 * Owns: which prefixes were written, and when they were last used. Its neighbour `fingerprint` says what a prefix is.
 *
 * Invariants:
 * 1. Only prefixes that end at a breakpoint are written; what may be read ends at a breakpoint or a few blocks before.
 * 2. A prefix lives for `ttlMs` after its last use, and at most `maxEntries` are kept, the least recently used going first.
 * 3. Read, written and uncached input tokens add up to the whole input.
 */
import type { Fingerprint, Prefix } from "./fingerprint.ts";
import type { TokenUsage } from "./wire.ts";

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
