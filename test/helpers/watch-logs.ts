/** When Redis was told to write the entries of the agents' logs. */
import { closeAtEnd } from "./cleanup.ts";
import { openMonitor } from "./monitor.ts";

/**
 * When each log entry was written for the first time, epoch ms, by `<log key> <entry>`. Looks on at all servers of these
 * ports: a replica tells what its master wrote. One that dies is no longer watched.
 */
export async function watchLogs(ports: readonly number[]): Promise<Map<string, number>> {
  const written = new Map<string, number>();
  for (const port of ports) {
    const monitor = await openMonitor(
      `redis://127.0.0.1:${port}`,
      (seconds, [command = "", key = "", entry = ""]) => {
        const name = `${key} ${entry}`;
        if (/^hset$/i.test(command) && key.endsWith(":log") && !written.has(name)) {
          written.set(name, Number(seconds) * 1_000);
        }
      },
    );
    closeAtEnd(monitor.stop);
  }
  return written;
}
