/** Starts a Redis Sentinel that watches one master. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { closeAtEnd } from "./cleanup.ts";
import { freePort } from "./redis-server.ts";
import { until } from "./until.ts";

/** Starts a Sentinel of the master at `masterPort`, named `m`; the test's end kills it. */
export async function startSentinel(masterPort: number): Promise<{ url: string; port: number }> {
  const directory = await mkdtemp(join(tmpdir(), "sentinel-"));
  closeAtEnd(() => rm(directory, { recursive: true, force: true }));
  const port = await freePort();
  const file = join(directory, "sentinel.conf");
  const settings = [
    ...[`port ${port}`, "bind 127.0.0.1", `dir ${directory}`, `sentinel monitor m 127.0.0.1 ${masterPort} 1`],
    "sentinel down-after-milliseconds m 500",
  ];
  await writeFile(file, settings.join("\n"));
  const child = spawn(process.env.REDIS_SERVER_BIN ?? "redis-server", [file, "--sentinel"], {
    stdio: "ignore",
  });
  const closed = once(child, "close");
  closeAtEnd(async () => {
    child.kill("SIGKILL");
    await closed;
  });
  const redis = new Redis(port, { retryStrategy: () => 50, maxRetriesPerRequest: null });
  redis.on("error", () => {});
  closeAtEnd(() => redis.disconnect());
  await until(async () => (await redis.ping()) === "PONG");
  return { url: `redis://127.0.0.1:${port}`, port };
}
