/** When Redis was told to write the entries of the agents' logs. */
import { Redis } from "ioredis";
import { closeAtEnd } from "./cleanup.ts";

/**
 * When each log entry was written for the first time, epoch ms, by `<log key> <entry>`. Looks on at all servers of these
 * ports: a replica tells what its master wrote. One that dies is no longer watched.
 */
export async function watchLogs(ports: readonly number[]): Promise<Map<string, number>> {
  const written = new Map<string, number>();
  for (const port of ports) {
    const redis = new Redis(port, "127.0.0.1", { retryStrategy: () => null });
    redis.on("error", () => {});
    const monitor = await redis.monitor();
    monitor.on("error", () => {});
    closeAtEnd(() => {
      monitor.disconnect();
      redis.disconnect();
    });
    monitor.on("monitor", (seconds: string, [command = "", key = "", entry = ""]: string[]) => {
      const name = `${key} ${entry}`;
      if (/^hset$/i.test(command) && key.endsWith(":log") && !written.has(name)) {
        written.set(name, Number(seconds) * 1_000);
      }
    });
  }
  return written;
}
