/**
 * API keys: the tenant that a program acts for, and its rights.
 *
 * 1. Redis holds a digest of each secret, never the secret: it is shown once, by the call that made it.
 * 2. A key belongs to one tenant. At most two keys of a name live at a time, so that a new secret can replace the old one
 *    without a moment in which neither works.
 * 3. Revoked keys stay in the hash: once a key has been made, the API never again answers without one.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import { SubagentError } from "../errors.ts";
import { TenantId } from "../protocol/ids.ts";
import type { Keys } from "../protocol/keys.ts";
import { TIMING } from "../protocol/limits.ts";
import { quoted } from "../protocol/text.ts";
import { pairs } from "./codec.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { loadScripts } from "./scripts.ts";

/**
 * Rights of a key. `read`: read agents, replies, events, files. `spawn`: also everything that changes its tenant's agents.
 * `admin`: also the pages about the whole installation (board, metrics), for its operator only.
 */
export const Scope = z.enum(["read", "spawn", "admin"]);
/** See {@link Scope}. */
export type Scope = z.infer<typeof Scope>;

/** Name of a key: 1 to 64 characters. */
export const ApiKeyName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$/, "1 to 64 characters of A-Za-z0-9 ._-");

const StoredKey = z.object({
  v: z.literal(1),
  tenant: TenantId,
  name: ApiKeyName,
  scope: Scope,
  /** SHA-256 of the secret, hex: the secret has 256 random bits, so nothing slower is needed. */
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  created_at: z.string(),
  revoked_at: z.string().optional(),
});
type StoredKey = z.infer<typeof StoredKey>;

/** A key without its secret. Times: ISO 8601, Redis' clock. */
export interface ApiKey extends Omit<StoredKey, "v" | "digest"> {
  key_id: string;
}

/** A listed key; `last_used_at`: to the minute, absent for one that nothing has used for 90 days. */
export interface ListedApiKey extends ApiKey {
  last_used_at?: string;
}

/** Tenant, name and scope of a new key. */
export type ApiKeyInput = Pick<StoredKey, "tenant" | "name" | "scope">;

/** A new key; a program sends `token`, which is never shown again. */
export interface MadeApiKey extends ApiKey {
  token: string;
}

/** Gets the id of a new key just before it is written, and undefined if Redis then refuses to write it. */
export type OnKeyWrite = (keyId: string | undefined) => void;

/** See the module's header. Commands reject as the connection does. */
export interface ApiKeys {
  /**
   * Makes a key. Rejects with `conflict` when the tenant has a live key of this name: `rotate` makes the second.
   */
  create(input: ApiKeyInput, onWrite?: OnKeyWrite): Promise<MadeApiKey>;
  /** Makes the second key of a name, as `create` does. Rejects with `unknown_key`, or `conflict` when two live already. */
  rotate(keyId: string, onWrite?: OnKeyWrite): Promise<MadeApiKey>;
  /** Removes a key whose secret was never shown, because the answer to its making was lost. Idempotent. */
  discard(keyId: string): Promise<void>;
  /** Revokes a key, for good and at once, even while Redis has no memory left. Rejects with `unknown_key`. */
  revoke(keyId: string): Promise<ApiKey>;
  /** All keys, revoked ones included, oldest first. */
  list(): Promise<ListedApiKey[]>;
  /** Notes that a key is used now. */
  noteUse(keyId: string): Promise<void>;
  /** Returns the live key that `token` belongs to; undefined for every other text. */
  find(token: string): Promise<ApiKey | undefined>;
  /** Returns true if a key was made at any time: then the API requires one. */
  exist(): Promise<boolean>;
}

const TOKEN = /^saq_([0-9a-f]{16})_([0-9a-f]{64})$/;
const MOST_LIVE = 2;
/** Fields of the hash that one command reads: a few hundred microseconds of Redis. */
const PAGE_KEYS = 1_000;
/** Time for which the last use of a key is known, ms: 90 days. */
const USE_KEPT_MS = 7_776_000_000;

/** Returns the API keys of an installation. */
export function createApiKeys(redis: RedisClient, keys: Keys): ApiKeys {
  const scripts = loadScripts(redis, keys, TIMING);
  const store = keyStore(redis, keys.apiKeys);
  return {
    async list() {
      const found: ListedApiKey[] = await store.list();
      for (let start = 0; start < found.length; start += PAGE_KEYS) {
        const page = found.slice(start, start + PAGE_KEYS);
        const used = await redis.mget(page.map(({ key_id }) => keys.apiKeyUsed(key_id)));
        for (const [n, key] of page.entries()) if (used[n]) key.last_used_at = used[n];
      }
      return found;
    },
    async noteUse(keyId) {
      await redis.set(keys.apiKeyUsed(keyId), await now(redis), "PX", USE_KEPT_MS);
    },
    create(input, onWrite) {
      const sentence = `Tenant "${input.tenant}" has a live key "${input.name}": rotate it, or choose another name.`;
      return store.make(input, { most: 1, sentence, onWrite });
    },
    async discard(keyId) {
      await redis.hdel(keys.apiKeys, keyId);
    },
    async rotate(keyId, onWrite) {
      const { tenant, name, scope, revoked_at } = await store.known(keyId);
      if (revoked_at) throw new SubagentError("conflict", `Key "${keyId}" is revoked: create a new one.`);
      const sentence = `Two keys "${name}" live already: revoke the one that nothing uses any more.`;
      return store.make({ tenant, name, scope }, { most: MOST_LIVE, sentence, onWrite });
    },
    async revoke(keyId) {
      const stored = await store.known(keyId);
      const revoked = { ...stored, revoked_at: stored.revoked_at ?? (await now(redis)) };
      await scripts.run("key-revoke", undefined, { key_id: keyId, revoked: JSON.stringify(revoked) });
      return viewOf(keyId, revoked);
    },
    async find(token) {
      const [, keyId, secret] = TOKEN.exec(token) ?? [];
      if (keyId === undefined || secret === undefined) return undefined;
      const stored = await store.read(keyId);
      // Compared even if there is no such key, so that the response time reveals nothing.
      const isRight = isSame(digestOf(secret), stored?.digest ?? digestOf(keyId));
      return stored && isRight && stored.revoked_at === undefined ? viewOf(keyId, stored) : undefined;
    },
    exist: async () => (await redis.exists(keys.apiKeys)) === 1,
  };
}

/** Conditions of a new key; `sentence`: that of the `conflict`. */
interface Making {
  most: number;
  sentence: string;
  onWrite: OnKeyWrite | undefined;
}

/** Returns operations on the hash of all keys. */
function keyStore(redis: RedisClient, hash: string) {
  const read = async (keyId: string) => decode(await redis.hget(hash, keyId));
  /** Reads in pages all keys whose stored text has `part`. A key that is there all the time is not missed. */
  const walk = async (part = ""): Promise<ApiKey[]> => {
    const found = new Map<string, ApiKey>();
    let cursor = "0";
    do {
      const [next, page] = await redis.hscan(hash, cursor, "COUNT", PAGE_KEYS);
      cursor = next;
      for (const [key_id, text] of pairs(page)) {
        const stored = text.includes(part) ? decode(text) : undefined;
        if (stored) found.set(key_id, viewOf(key_id, stored));
      }
    } while (cursor !== "0");
    return [...found.values()];
  };
  const list = async () => (await walk()).sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  /** Parses only keys that name the tenant: of 30,000 keys that is a few milliseconds instead of a second. */
  const liveCount = async ({ tenant, name }: ApiKeyInput) =>
    (await walk(tenant)).filter((key) => !key.revoked_at && key.tenant === tenant && key.name === name)
      .length;
  return {
    read,
    list,
    /**
     * Makes a key; rejects with `conflict` and `sentence` if its name then has more than `most` live keys. Concurrent callers each count
     * again after the write, so there are never too many for long; a key that is deleted again was never returned.
     */
    async make(input: ApiKeyInput, { most, sentence, onWrite }: Making): Promise<MadeApiKey> {
      if ((await liveCount(input)) >= most) throw new SubagentError("conflict", sentence);
      const [key_id, secret] = [randomBytes(8).toString("hex"), randomBytes(32).toString("hex")];
      const stored: StoredKey = { v: 1, ...input, digest: digestOf(secret), created_at: await now(redis) };
      onWrite?.(key_id);
      await redis.hset(hash, key_id, JSON.stringify(stored)).catch(unwritten(onWrite));
      if ((await liveCount(input)) > most) {
        await redis.hdel(hash, key_id);
        throw new SubagentError("conflict", sentence);
      }
      return { ...viewOf(key_id, stored), token: `saq_${key_id}_${secret}` };
    },
    async known(keyId: string): Promise<StoredKey> {
      const stored = await read(keyId);
      if (stored) return stored;
      const sentence = `There is no API key ${quoted(keyId)}: subagent-queue keys list shows all.`;
      throw new SubagentError("unknown_key", sentence);
    },
  };
}

/** Returns a handler of a failed write, which rethrows its error. */
function unwritten(onWrite: OnKeyWrite | undefined): (error: Error) => never {
  return (error) => {
    if (error.name === "ReplyError") onWrite?.(undefined);
    throw error;
  };
}

function digestOf(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

function isSame(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

function viewOf(key_id: string, { v: _, digest: __, ...stored }: StoredKey): ApiKey {
  return { key_id, ...stored };
}

/** A key that this version cannot read opens nothing. */
function decode(text: string | null): StoredKey | undefined {
  if (text === null) return undefined;
  try {
    return StoredKey.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

async function now(redis: RedisClient): Promise<string> {
  return new Date(await redisNowMs(redis)).toISOString();
}
