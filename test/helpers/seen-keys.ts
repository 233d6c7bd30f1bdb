/** What a Redis is seen to do at the keys under a prefix: by which scripts, by whom besides, and how long they are told to stay. */
import { createHash } from "node:crypto";
import type { Redis } from "ioredis";
import { luaSource, Script, type VerbName } from "../../src/shared/redis/scripts.ts";
import { VERBS } from "../../src/shared/redis/verbs.ts";
import { closeAtEnd } from "./cleanup.ts";
import { openMonitor } from "./monitor.ts";

/** Commands that write, and the type of the key that they make; null: of whatever type. */
const WRITES: Readonly<Record<string, string | null>> = {
  set: "string",
  hset: "hash",
  hsetnx: "hash",
  hdel: "hash",
  hincrby: "hash",
  rpush: "list",
  lpop: "list",
  ltrim: "list",
  xadd: "stream",
  xdel: "stream",
  xtrim: "stream",
  zadd: "sorted set",
  zrem: "sorted set",
  zremrangebyscore: "sorted set",
  sadd: "set",
  srem: "set",
  publish: "channel",
  del: null,
  rename: null,
  pexpire: null,
  expire: null,
  persist: null,
};
const READS = new Set(
  "hget hmget hgetall hlen hexists hkeys hvals hstrlen hscan llen lrange lindex xlen xrange xrevrange zscore zcard zrange zrangebyscore zscan get mget exists pttl smembers sismember scard subscribe".split(
    " ",
  ),
);
/** Their keys are all words of theirs. */
const OF_MANY = new Set(["del", "rename", "exists", "mget", "subscribe"]);

/** Who uses a key: scripts by their names, and what came from outside of Lua by the names of its connections. */
export interface Users {
  verbs: Set<string>;
  others: Set<string>;
}

/** What was seen at one key. */
export interface SeenKey {
  types: Set<string>;
  writers: Users;
  readers: Users;
  /** Times to live that it was given, ms. */
  ttlsMs: Set<number>;
}

/** See the file's sentence. */
export interface SeenKeys {
  readonly keys: ReadonlyMap<string, SeenKey>;
  /** Scripts that ran. */
  readonly ran: ReadonlySet<string>;
  /** The connections that have come since the last call are `name`'s. What they did before counts as well. */
  name(name: string): Promise<void>;
  /** Resolves when everything that was done before was seen. */
  caughtUp(): Promise<void>;
}

/** Watches a server until the end of the test; `observer` is a connection to it. */
export async function watchKeys(url: string, prefix: string, observer: Redis): Promise<SeenKeys> {
  const names = Object.keys(VERBS) as VerbName[];
  const digests = new Map(names.map((name) => [new Script(luaSource(name)).digest, name]));
  const keys = new Map<string, SeenKey>();
  const ran = new Set<string>();
  const connections = new Map<string, string>();
  /** Users whose connection had no name yet. */
  const unnamed = new Map<string, Set<Set<string>>>();
  let verb: string | undefined;
  const note = ({ verbs, others }: Users, source: string) => {
    const name = connections.get(source);
    if (source === "lua") {
      if (verb !== undefined) verbs.add(verb);
    } else if (name !== undefined) others.add(name);
    else unnamed.set(source, (unnamed.get(source) ?? new Set()).add(others));
  };
  const monitor = await openMonitor(url, (_seconds, [command = "", ...words], source) => {
    const name = command.toLowerCase();
    const [first = ""] = words;
    if (name === "evalsha" || name === "eval") {
      verb = digests.get(name === "eval" ? createHash("sha1").update(first, "latin1").digest("hex") : first);
      if (verb !== undefined) ran.add(verb);
    }
    const type = WRITES[name];
    if (type === undefined && !READS.has(name)) return;
    for (const key of OF_MANY.has(name) ? words : [first]) {
      if (!key.replace("{", "").startsWith(prefix)) continue;
      const of = keys.get(key) ?? nothingSeen();
      keys.set(key, of);
      note(type === undefined ? of.readers : of.writers, source);
      if (type !== undefined && type !== null) of.types.add(type);
      const ttlMs = ttlIn(name, words);
      if (ttlMs !== undefined) of.ttlsMs.add(ttlMs);
    }
  });
  closeAtEnd(() => monitor.stop());
  return {
    keys,
    ran,
    async name(name) {
      for (const [, address = ""] of String(await observer.client("LIST")).matchAll(/\baddr=(\S+)/g)) {
        if (connections.has(address)) continue;
        connections.set(address, name);
        for (const others of unnamed.get(address) ?? []) others.add(name);
      }
    },
    caughtUp: () => monitor.caughtUp(),
  };
}

function nothingSeen(): SeenKey {
  const users = (): Users => ({ verbs: new Set(), others: new Set() });
  return { types: new Set(), writers: users(), readers: users(), ttlsMs: new Set() };
}

/** The time to live that a command gives its key, ms. */
function ttlIn(name: string, words: readonly string[]): number | undefined {
  if (name === "pexpire") return Number(words[1]);
  if (name === "expire") return Number(words[1]) * 1_000;
  if (name !== "set") return undefined;
  const at = words.findIndex((word, i) => i > 1 && /^(px|ex)$/i.test(word));
  if (at < 0) return undefined;
  return Number(words[at + 1]) * (words[at]?.toLowerCase() === "ex" ? 1_000 : 1);
}
