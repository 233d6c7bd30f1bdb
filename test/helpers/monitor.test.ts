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

test("a server that hangs up before it has said OK is an error, not a wait without end", async () => {
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  closeAtEnd(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  await expect(openMonitor(`redis://127.0.0.1:${port}`, () => {})).rejects.toThrow("closed the connection");
});
