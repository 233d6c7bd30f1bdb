import { once } from "node:events";
import { createServer } from "node:net";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { closeAtEnd } from "./cleanup.ts";
import { openMonitor } from "./monitor.ts";
import { startPrivateRedis } from "./redis.ts";
import { until } from "./until.ts";

test("of a server that is busy nothing is missed from the moment the monitor is open", async () => {
  const server = await startPrivateRedis();
  const redis = new Redis(server.url);
  closeAtEnd(() => redis.disconnect());
  let busy = true;
  closeAtEnd(() => {
    busy = false;
  });
  const traffic = Promise.all(
    Array.from({ length: 20 }, async () => {
      while (busy) await redis.echo("traffic");
    }),
  );
  for (let round = 0; round < 50; round++) {
    const told: string[] = [];
    const monitor = await openMonitor(server.url, (_seconds, command) => told.push(command.join(" ")));
    await redis.set("round", `a "quoted" ${round}`);
    await until(() => told.includes(`set round a "quoted" ${round}`));
    monitor.stop();
  }
  busy = false;
  await traffic;
});

test("what Redis has done before the question is told when the monitor has caught up, and what it has said when it is dead", async () => {
  const server = await startPrivateRedis();
  const redis = new Redis(server.url);
  redis.on("error", () => {});
  closeAtEnd(() => redis.disconnect());
  let told = 0;
  const monitor = await openMonitor(server.url, (_seconds, [command]) => {
    if (command === "incr") told += 1;
  });
  const count = async () => {
    const script = "for i = 1, 2000 do redis.call('incr', KEYS[1]) end";
    for (let round = 0; round < 10; round++) await redis.eval(script, 1, "counter");
  };
  await count();
  await monitor.caughtUp();
  expect(told).toBe(20_000);
  await count();
  await server.kill();
  await monitor.ended;
  expect(told).toBeGreaterThan(20_000);
  await expect(monitor.caughtUp()).rejects.toThrow();
});

test("a server that hangs up before it has said OK is an error, not a wait without end", async () => {
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  closeAtEnd(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  await expect(openMonitor(`redis://127.0.0.1:${port}`, () => {})).rejects.toThrow("closed the connection");
});
