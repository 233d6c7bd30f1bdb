import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { closeAtEnd } from "./cleanup.ts";
import { startProxy } from "./proxy.ts";
import { redisUrl, uniquePrefix } from "./redis.ts";
import { until } from "./until.ts";

const redisPort = () => Number(new URL(redisUrl()).port);

/** A client through the proxy that comes back by itself and re-sends nothing. */
function connectTo(port: number): Redis {
  const redis = new Redis(port, "127.0.0.1", {
    retryStrategy: () => 5,
    maxRetriesPerRequest: 0,
    disconnectTimeout: 100,
  });
  redis.on("error", () => {});
  closeAtEnd(() => redis.disconnect());
  return redis;
}

test("bytes pass unchanged in both directions, large values included", async () => {
  const proxy = await startProxy(redisPort());
  const redis = connectTo(proxy.port);
  const [key, value] = [uniquePrefix(), "x".repeat(4_000_000)];
  await redis.set(key, value);
  expect(await redis.getdel(key)).toBe(value);
  expect(proxy.counts).toEqual({ accepted: 1, cut: 0, refused: 0, swallowed: 0 });
});

test("a paused proxy delivers nothing, and everything once it is resumed", async () => {
  const proxy = await startProxy(redisPort());
  const [redis, bystander] = [connectTo(proxy.port), connectTo(redisPort())];
  const key = uniquePrefix();
  await redis.ping();
  proxy.pause();
  const written = redis.set(key, "late");
  for (let round = 0; round < 20; round += 1) expect(await bystander.get(key)).toBeNull();
  expect(proxy.held).toContain(`$4\r\nlate\r\n`);
  proxy.resume();
  expect(await written).toBe("OK");
  expect(await bystander.getdel(key)).toBe("late");
});

test("a black hole loses the command, and cuts the connection when it heals", async () => {
  const proxy = await startProxy(redisPort());
  const [redis, bystander] = [connectTo(proxy.port), connectTo(redisPort())];
  const key = uniquePrefix();
  await redis.ping();
  proxy.blackhole();
  const lost = redis.set(key, "never").catch((failure: Error) => failure.message);
  for (let round = 0; round < 20; round += 1) await bystander.ping();
  expect(proxy.open).toBe(1);
  proxy.heal();
  expect(await lost).toMatch(/max retries per request/);
  expect(proxy.counts.cut).toBe(1);
  expect(await bystander.get(key)).toBeNull();
});

test("a refusing proxy resets what is open and what comes, until it heals", async () => {
  const proxy = await startProxy(redisPort());
  const redis = connectTo(proxy.port);
  await redis.ping();
  proxy.refuse();
  await until(() => proxy.counts.refused >= 2, { what: "the client to come back twice" });
  expect(proxy.open).toBe(0);
  expect(proxy.counts).toMatchObject({ accepted: 1, cut: 1 });
  proxy.heal();
  await until(() => redis.status === "ready");
  expect(await redis.ping()).toBe("PONG");
});

test("a connection that lost nothing survives a black hole", async () => {
  const proxy = await startProxy(redisPort());
  const redis = connectTo(proxy.port);
  await redis.ping();
  proxy.blackhole();
  proxy.heal();
  expect(await redis.ping()).toBe("PONG");
  expect(proxy.counts).toEqual({ accepted: 1, cut: 0, refused: 0, swallowed: 0 });
});

test("a stranded connection stays open and silent, and a new one is whole", async () => {
  const proxy = await startProxy(redisPort());
  const stranded = connectTo(proxy.port);
  await stranded.ping();
  proxy.strand();
  let answered = false;
  stranded.ping().then(
    () => (answered = true),
    () => {},
  );
  const fresh = connectTo(proxy.port);
  expect(await fresh.ping()).toBe("PONG");
  expect(answered).toBe(false);
  expect(stranded.status).toBe("ready");
  expect(proxy.counts).toMatchObject({ accepted: 2, cut: 0 });
});

test("cutting resets every connection, and a client may come back", async () => {
  const proxy = await startProxy(redisPort());
  const clients = [connectTo(proxy.port), connectTo(proxy.port)];
  await Promise.all(clients.map((client) => client.ping()));
  expect(proxy.open).toBe(2);
  proxy.cutAll();
  await until(() => proxy.counts.accepted === 4, { what: "both clients to come back" });
  expect(proxy.counts.cut).toBe(2);
  expect(await Promise.all(clients.map((client) => client.ping()))).toEqual(["PONG", "PONG"]);
});

test("a swallowed reply belongs to a command that ran", async () => {
  const proxy = await startProxy(redisPort());
  const [redis, bystander] = [connectTo(proxy.port), connectTo(redisPort())];
  const key = uniquePrefix();
  await redis.ping();
  proxy.swallowEveryNthReply(1);
  const answer = await redis.incr(key).catch((failure: Error) => failure.message);
  proxy.swallowEveryNthReply(undefined);
  expect(answer).toMatch(/max retries per request/);
  expect(proxy.counts.swallowed).toBeGreaterThanOrEqual(1);
  expect(await bystander.getdel(key)).toBe("1");
});

test("every nth reply is swallowed, over all connections", async () => {
  const proxy = await startProxy(redisPort());
  const redis = connectTo(proxy.port);
  await redis.ping();
  proxy.swallowEveryNthReply(10);
  let refused = 0;
  for (let round = 0; round < 60; round += 1) await redis.ping().catch(() => (refused += 1));
  expect(refused).toBe(proxy.counts.swallowed);
  expect(refused).toBeGreaterThanOrEqual(6);
});

test("latency delays each direction and keeps the order", async () => {
  const proxy = await startProxy(redisPort());
  const redis = connectTo(proxy.port);
  await redis.ping();
  proxy.setLatency(30);
  const sentMs = performance.now();
  const answers = await Promise.all([redis.echo("a"), redis.echo("b"), redis.echo("c")]);
  expect(answers).toEqual(["a", "b", "c"]);
  expect(performance.now() - sentMs).toBeGreaterThanOrEqual(59);
});

test("the end of the server's side reaches the client after the last byte", async () => {
  const server = createServer((socket) => socket.end("goodbye"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closeAtEnd(async () => void server.close());
  const proxy = await startProxy((server.address() as { port: number }).port);
  const { connect } = await import("node:net");
  const client: Socket = connect(proxy.port, "127.0.0.1");
  client.setEncoding("utf8");
  let text = "";
  client.on("data", (chunk: string) => {
    text += chunk;
  });
  await once(client, "close");
  expect(text).toBe("goodbye");
});

test("a stopped proxy refuses connections, and stopping again changes nothing", async () => {
  const proxy = await startProxy(redisPort());
  await proxy.stop();
  await proxy.stop();
  const redis = new Redis(proxy.port, "127.0.0.1", { lazyConnect: true, retryStrategy: () => null });
  redis.on("error", () => {});
  await expect(redis.connect()).rejects.toThrow(/closed|ECONNREFUSED/);
});
