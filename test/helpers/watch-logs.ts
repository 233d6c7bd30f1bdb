/** Records when Redis writes the entries of the agents' logs. */
import { closeAtEnd } from "./cleanup.ts";
import { type Monitor, openMonitor } from "./monitor.ts";

/** See {@link watchLogs}. */
export interface WatchedLogs {
  /** Time (epoch ms) of the first write of each log entry, by `<log key> <entry>`. */
  readonly written: ReadonlyMap<string, number>;
  /** Resolves when all earlier writes of the live servers are in `written`. */
  caughtUp(): Promise<void>;
}

/** Watches the servers on these ports. A replica also reports its master's writes. A server that dies is no longer watched. */
export async function watchLogs(ports: readonly number[]): Promise<WatchedLogs> {
  const written = new Map<string, number>();
  const watching = new Set<Monitor>();
  for (const port of ports) {
    const monitor = await openMonitor(
      `redis://127.0.0.1:${port}`,
      (seconds, [command = "", key = "", ...pairs]) => {
        if (!/^hset$/i.test(command) || !key.endsWith(":log")) return;
        for (let i = 0; i < pairs.length; i += 2) {
          const name = `${key} ${pairs[i]}`;
          if (!written.has(name)) written.set(name, Number(seconds) * 1_000);
        }
      },
    );
    closeAtEnd(monitor.stop);
    watching.add(monitor);
    void monitor.ended.then(() => watching.delete(monitor));
  }
  const caughtUp = async () => {
    await Promise.all([...watching].map((monitor) => monitor.caughtUp()));
  };
  return { written, caughtUp };
}
