/** Records which scripts and connections read and write the keys under a prefix of a Redis, and the TTLs they set. */
import { createHash } from "node:crypto";
import type { Redis } from "ioredis";
import { Script } from "../../src/shared/redis/connection/server-connection.ts";
import { luaSource, type VerbName } from "../../src/shared/redis/scripts.ts";
import { VERBS } from "../../src/shared/redis/verbs.ts";
import { closeAtEnd } from "./cleanup.ts";
import { openMonitor } from "./monitor.ts";

/** Commands that write, each with the type of key it creates; null: any type. */
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
  unlink: null,
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
/** Commands whose arguments are all keys. */
const OF_MANY = new Set(["del", "unlink", "rename", "exists", "mget", "subscribe"]);

/** Users of a key: names of scripts, and names of the connections that use it outside of Lua. */
export interface Users {
  verbs: Set<string>;
  others: Set<string>;
}

/** The recorded uses of one key. */
export interface SeenKey {
  types: Set<string>;
  writers: Users;
  readers: Users;
  /** TTLs that were set, ms. */
  ttlsMs: Set<number>;
}

/** See the module's header. */
export interface SeenKeys {
  readonly keys: ReadonlyMap<string, SeenKey>;
  /** Names of the scripts that ran. */
  readonly ran: ReadonlySet<string>;
  /** Gives the connections opened since the last call this name, also for their commands so far. */
  name(name: string): Promise<void>;
  /** Resolves when all commands before this call are recorded. */
  caughtUp(): Promise<void>;
}

/** Watches a server until the end of the test; `observer` is a connection to it. */
export async function watchKeys(url: string, prefix: string, observer: Redis): Promise<SeenKeys> {
  const names = Object.keys(VERBS) as VerbName[];
  const digests = new Map(names.map((name) => [new Script(luaSource(name)).digest, name]));
  const keys = new Map<string, SeenKey>();
  const ran = new Set<string>();
  const connections = new Map<string, string>();
  /** Sets of users that a connection must be added to once it has a name. */
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

/** Returns the TTL (ms) that a command gives its key; undefined if it gives none. */
function ttlIn(name: string, words: readonly string[]): number | undefined {
  if (name === "pexpire") return Number(words[1]);
  if (name === "expire") return Number(words[1]) * 1_000;
  if (name !== "set") return undefined;
  const at = words.findIndex((word, i) => i > 1 && /^(px|ex)$/i.test(word));
  if (at < 0) return undefined;
  return Number(words[at + 1]) * (words[at]?.toLowerCase() === "ex" ? 1_000 : 1);
}
