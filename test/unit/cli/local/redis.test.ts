import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { askRedis, namingRedis, openRedisSource, withRedis } from "../../../../src/cli/local/redis.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { closeRedis, openRedis, whenAccepted } from "../../../../src/shared/redis/connection/connection.ts";
import { withoutPassword } from "../../../../src/shared/redis-url.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { latch } from "../../../helpers/latch.ts";
import { startProxy } from "../../../helpers/proxy.ts";
import { redisUrl, startPrivateRedis } from "../../../helpers/redis.ts";
import { freePort } from "../../../helpers/redis-server.ts";
import { createManualClock } from "../manual-clock.ts";

const at = (redisUrl: string | undefined, production = false) => ({ redisUrl, production });

test("a Redis that is there is described by its address and version", async () => {
  const source = await openRedisSource(at(redisUrl()), undefined, systemClock);
  expect(source).toMatchObject({ url: redisUrl(), isPrivate: false });
  expect(source.description).toMatch(/^redis:\/\/127\.0\.0\.1:\d+ \(\d+\.\d+\.\d+\)$/);
  await source.stop();
});

test("without an address a private server is started, and stopped again", async () => {
  const source = await openRedisSource(at(undefined), process.env.PATH, systemClock);
  closeAtEnd(() => source.stop());
  expect(source.description).toMatch(
    /^private (redis|valkey)-server \d+\.\d+\.\d+, gone with its data when this ends$/,
  );
  expect(source.isPrivate).toBe(true);
  await source.stop();
  await source.gone;
});

test("a refused connection is told at once, without the password", async () => {
  const port = await freePort();
  await expect(
    openRedisSource(at(`redis://:canary@127.0.0.1:${port}`), "", systemClock),
  ).rejects.toMatchObject({
    code: "redis_unavailable",
    message: `No Redis at redis://***@127.0.0.1:${port} (connection refused): start it, or correct REDIS_URL.`,
  });
  await expect(openRedisSource(at("unix:///nowhere/redis.sock"), "", systemClock)).rejects.toThrow(
    "(no such socket)",
  );
});

test("a Redis that answers and refuses is not said to be absent", async () => {
  const { host } = new URL(redisUrl());
  await expect(openRedisSource(at(`redis://nobody:canary@${host}`), "", systemClock)).rejects.toMatchObject({
    code: "redis_unavailable",
    message: expect.stringMatching(
      /^Redis at redis:\/\/\*\*\*@127\.0\.0\.1:\d+ cannot be used \(WRONGPASS .*\): correct REDIS_URL, or fix that server\.$/,
    ),
  });
  await expect(openRedisSource(at(`redis+cluster://${host}`), "", systemClock)).rejects.toThrow(
    `Redis at redis+cluster://${host} cannot be used (that Redis is no cluster: write redis://host:port)`,
  );
});

test("a worker or board that a Redis refuses gives the reason, and does not say that there is none", async () => {
  const { host } = new URL(redisUrl());
  const refused: [url: string, reason: string][] = [
    [`redis+cluster://${host}`, "that Redis is no cluster: write redis://host:port"],
    [`redis://nobody:canary@${host}`, "WRONGPASS"],
  ];
  for (const [url, reason] of refused) {
    const redis = openRedis(url, "worker");
    closeAtEnd(() => closeRedis(redis));
    const error = await whenAccepted(redis).catch((reason: unknown) => namingRedis(url, reason));
    expect(error).toMatchObject({
      code: "redis_unavailable",
      message: expect.stringContaining(`Redis at ${withoutPassword(url)} cannot be used (${reason}`),
    });
  }
});

test("one node of a cluster is refused with the address to write instead", async () => {
  const node = await startPrivateRedis({ arguments: ["--cluster-enabled", "yes"] });
  await expect(openRedisSource(at(node.url), "", systemClock)).rejects.toMatchObject({
    code: "invalid_config",
    message: expect.stringMatching(
      /^The address of Redis \(redisUrl, REDIS_URL\) names one node of a Redis Cluster: write redis\+cluster:/,
    ),
  });
});

test("in production the embedded server, which keeps nothing, is refused with what to do instead", async () => {
  await expect(openRedisSource(at(undefined, true), "/nowhere", systemClock)).rejects.toMatchObject({
    code: "invalid_config",
    message: expect.stringMatching(/set REDIS_URL, or install redis-server\.$/),
  });
});

/** A server that accepts and never answers, as a Redis without TLS does that is sent a TLS handshake. */
async function silentServer() {
  const server = createServer((socket) => void closeAtEnd(() => void socket.destroy())).listen(
    0,
    "127.0.0.1",
  );
  await once(server, "listening");
  closeAtEnd(() => void server.close());
  return { server, port: (server.address() as AddressInfo).port };
}

test.each([
  ["redis", "names another server."],
  ["rediss", "names another server; if that Redis has no TLS, write redis:// in place of rediss://."],
])(
  "a server at %s:// that accepts and says nothing is given up, with what may be wrong",
  async (scheme, end) => {
    const { server, port } = await silentServer();
    const clock = createManualClock();
    const opening = openRedisSource(at(`${scheme}://127.0.0.1:${port}`), "", clock);
    await once(server, "connection");
    clock.advance(5_100);
    const refused = await opening.catch((error: unknown) => error);
    expect(refused).toMatchObject({
      message: expect.stringMatching(
        /has not answered within 5 s and did not refuse the connection: Redis, the network or this machine is busy/,
      ),
    });
    expect(String(refused).endsWith(end), String(refused)).toBe(true);
  },
);

test("a server that ends a TLS handshake is told with the address to write for one without TLS", async () => {
  const server = createServer((socket) => void socket.destroy()).listen(0, "127.0.0.1");
  await once(server, "listening");
  closeAtEnd(() => void server.close());
  const { port } = server.address() as AddressInfo;
  await expect(openRedisSource(at(`rediss://127.0.0.1:${port}`), "", systemClock)).rejects.toMatchObject({
    code: "redis_unavailable",
    message: `No Redis with TLS at rediss://127.0.0.1:${port} (connection closed): if that Redis has no TLS, write redis:// in place of rediss://; else start it, or correct REDIS_URL.`,
  });
});

test("a process that stood still for longer than a server may take reads the answer that came meanwhile", async () => {
  const opening = openRedisSource(at(redisUrl()), undefined, systemClock);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5_200);
  expect((await opening).description).toMatch(/^redis:/);
});

test("a Redis that answers all the time is waited for, however long its answers take together", async () => {
  const clock = createManualClock();
  const answers = await askRedis(redisUrl(), clock, async (redis) => {
    const pongs: string[] = [];
    while (pongs.length < 20) {
      pongs.push(await redis.ping());
      clock.advance(1_000);
    }
    return pongs;
  });
  expect(answers).toHaveLength(20);
});

test("a Redis that falls silent behind its first answers is given up", async () => {
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  const clock = createManualClock();
  const silent = latch();
  const asking = askRedis(`redis://127.0.0.1:${proxy.port}`, clock, async (redis) => {
    await redis.ping();
    clock.advance(4_000);
    await redis.ping();
    proxy.pause();
    silent.open();
    return redis.ping();
  });
  await silent.opened;
  clock.advance(4_000);
  clock.advance(1_100);
  await expect(asking).rejects.toThrow(/has not answered within 5 s/);
});

test("one connection serves question after question; the time between them is no silence", async () => {
  const proxy = await startProxy(Number(new URL(redisUrl()).port));
  const clock = createManualClock();
  const answers = await withRedis(`redis://127.0.0.1:${proxy.port}`, clock, async (ask) => {
    const first = await ask((redis) => redis.ping());
    clock.advance(60_000);
    return [first, await ask((redis) => redis.ping())];
  });
  expect(answers).toEqual(["PONG", "PONG"]);
  expect(proxy.counts.accepted).toBe(1);
  expect(clock.pending).toBe(0);
});

test("a password is never shown, also with slashes or at-signs in it", () => {
  expect(withoutPassword("redis://user:p@ss@host:1/2")).toBe("redis://***@host:1/2");
  expect(withoutPassword("redis://host:1")).toBe("redis://host:1");
});
