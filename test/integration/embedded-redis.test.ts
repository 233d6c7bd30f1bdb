/**
 * Guarantee: on what this product and BullMQ use, the embedded server and a real Redis give the same answers. Every row
 * is put to both.
 */
import { Redis } from "ioredis";
import { beforeAll, expect, test } from "vitest";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { startTestEmbedded } from "../helpers/embedded-redis.ts";
import { redisUrl, uniquePrefix } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

type Command = [name: string, ...args: (string | number)[]];

const HMGET = "local r = redis.call('HMGET', KEYS[1], 'a', 'gone') return { r[1], tostring(r[2]) }";
const GET = "return tostring(redis.call('GET', KEYS[1]))";
const TIME =
  "local t = redis.call('TIME') return { #t, tonumber(t[1]) > 1700000000, tonumber(t[2]) < 1000000 }";
const TTL = "return redis.call('PTTL', KEYS[1]) > 59000 and 'near a minute'";
const SCORE =
  "redis.call('ZADD', KEYS[1], 1730000000123 * 4096 + 7, 'm') return redis.call('ZSCORE', KEYS[1], 'm')";

const TOPICS: Record<string, readonly Command[]> = {
  "hashes, also with fields that are missing, read by a script": [
    ["HSET", "k", "a", "1", "b", "2"],
    ["HMGET", "k", "a", "gone"],
    ["EVAL", HMGET, 1, "k"],
    ["HSETNX", "k", "a", "9"],
    ["HSTRLEN", "k", "a"],
    ["HDEL", "k", "a", "gone"],
    ["HGETALL", "k"],
    ["HLEN", "gone"],
    ["EVAL", GET, 1, "gone"],
  ],
  lists: [
    ["RPUSH", "k", "a", "b", "c"],
    ["LRANGE", "k", 0, -1],
    ["LPOP", "k", 2],
    ["LTRIM", "k", 1, 0],
    ["EXISTS", "k"],
    ["RPOPLPUSH", "k", "other"],
  ],
  "limits on life: PX, PTTL, PERSIST, PEXPIRE": [
    ["SET", "k", "1", "PX", 60_000],
    ["EVAL", TTL, 1, "k"],
    ["PERSIST", "k"],
    ["PERSIST", "k"],
    ["PTTL", "k"],
    ["PTTL", "gone"],
    ["PEXPIRE", "k", 60_000],
    ["SET", "k", "2", "KEEPTTL"],
    ["EVAL", TTL, 1, "k"],
    ["SET", "k", "3", "NX"],
    ["PEXPIRE", "k", 0],
    ["GET", "k"],
  ],
  "sorted sets by score, with limits and exclusive ends": [
    ["ZADD", "k", 1, "a", 2, "b", 2, "c", 3.5, "d"],
    ["ZADD", "k", "NX", "CH", 9, "a", 9, "e"],
    ["ZADD", "k", "GT", 1, "d"],
    ["ZRANGEBYSCORE", "k", "-inf", "(3.5", "WITHSCORES", "LIMIT", 1, 2],
    ["ZRANGE", "k", "(2", "+inf", "BYSCORE", "LIMIT", 0, 1],
    ["ZREVRANGEBYSCORE", "k", "+inf", "-inf", "LIMIT", 0, 1],
    ["ZREMRANGEBYSCORE", "k", 0, 1],
    ["ZPOPMIN", "k"],
    ["ZCOUNT", "k", 2, 4],
    ["EVAL", SCORE, 1, "k"],
  ],
  "streams: ids, exclusive ranges, trimming by id, deletion": [
    ["XADD", "k", "1-1", "f", "a"],
    ["XADD", "k", "2-0", "f", "b"],
    ["XADD", "k", "3-0", "f", "c", "g", ""],
    ["XADD", "k", "3-0", "f", "late"],
    ["XRANGE", "k", "(1-1", "+", "COUNT", 1],
    ["XREVRANGE", "k", "+", "-", "COUNT", 1],
    ["XTRIM", "k", "MINID", "2-0"],
    ["XDEL", "k", "2-0", "9-9"],
    ["XLEN", "k"],
    ["XRANGE", "k", "-", "+"],
    ["XADD", "k", "MAXLEN", "~", 1000, "4-0", "f", "d"],
    ["XREAD", "COUNT", 5, "STREAMS", "k", "0"],
    ["XREAD", "STREAMS", "k", "$"],
  ],
  "time and errors in scripts": [
    ["EVAL", TIME, 0],
    ["EVAL", "return { err = 'OWN word' }", 0],
    ["EVAL", "return redis.pcall('XADD', KEYS[1], '0-0', 'f', 'v')", 1, "k"],
    ["EVAL", "return { 1, 2.9, 'a', true, false, nil, 4 }", 0],
    ["EVAL", "return cjson.encode({ a = { 1, 2 }, b = 'x' }):len()", 0],
    ["EVAL", "return cmsgpack.unpack(cmsgpack.pack({ 1, 'a' }))", 0],
    ["EVALSHA", "0".repeat(40), 0],
  ],
};

let servers: Record<"embedded" | "real", Redis>;

function connectTo(url: string): Redis {
  const redis = new Redis(url);
  closeAtEnd(() => redis.disconnect());
  return redis;
}

beforeAll(async () => {
  servers = { embedded: connectTo((await startTestEmbedded()).url), real: connectTo(redisUrl()) };
});

/** The answers to one command after the other, with keys under `keyPrefix`. */
async function answersOf(redis: Redis, commands: readonly Command[], keyPrefix: string): Promise<unknown[]> {
  const scoped = redis.duplicate({ keyPrefix });
  const answers: unknown[] = [];
  for (const [name, ...args] of commands) {
    answers.push([name, args, await scoped.call(name, args).catch((error: Error) => error.message)]);
  }
  scoped.disconnect();
  return answers;
}

for (const [topic, commands] of Object.entries(TOPICS)) {
  test(`both servers answer alike: ${topic}`, async () => {
    const prefix = uniquePrefix();
    const wanted = await answersOf(servers.real, commands, prefix);
    expect(await answersOf(servers.embedded, commands, prefix)).toEqual(wanted);
  });
}

test("both servers deliver to channels and patterns, and say how many heard it", async () => {
  for (const redis of Object.values(servers)) {
    const [channel, heard] = [uniquePrefix(), [] as string[]];
    const subscriber = redis.duplicate();
    closeAtEnd(() => subscriber.disconnect());
    subscriber.on("message", (_, text) => heard.push(`channel ${text}`));
    subscriber.on("pmessage", (_, __, text) => heard.push(`pattern ${text}`));
    await subscriber.subscribe(channel);
    await subscriber.psubscribe(`${channel.slice(0, -1)}*`);
    expect(await redis.publish(channel, "one")).toBe(2);
    await redis.eval("return redis.call('PUBLISH', KEYS[1], 'two')", 1, channel);
    await until(() => heard.length === 4, { what: "four deliveries" });
    expect(heard.sort()).toEqual(["channel one", "channel two", "pattern one", "pattern two"]);
  }
});
