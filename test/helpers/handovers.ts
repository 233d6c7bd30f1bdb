/**
 * What Redis itself saw of hand-overs: who gave an agent back, who took it next and when, and which terminal entries were
 * written. Taken from MONITOR, so by the server's clock and beside all that the product says of itself.
 */
import { closeAtEnd } from "./cleanup.ts";
import { openMonitor } from "./monitor.ts";

/** One agent that waited for a worker. Times are the server's, epoch ms. */
export interface HandOver {
  uid: string;
  /** Whether a worker gave it back; else it was queued by a message. */
  released: boolean;
  queuedAtMs: number;
  /** Undefined as long as nobody took it. */
  claimedAtMs?: number;
}

/** See the module's sentence. */
export interface HandOvers {
  /** In the order in which the agents were queued. */
  readonly all: readonly HandOver[];
  /** uid → entries that reached the parent, interim words left out. */
  readonly entries: ReadonlyMap<string, number>;
  /** How long those that were given back (or all) waited, ms; those that wait still have waited until `nowMs`. */
  waits(which: "released" | "all", nowMs: number): number[];
  /** Resolves when everything that Redis did before this call stands here. */
  caughtUp(): Promise<void>;
}

/** Watches the server at `url` until the end of the test. */
export async function watchHandOvers(url: string): Promise<HandOvers> {
  const all: HandOver[] = [];
  const waiting = new Map<string, HandOver>();
  const entries = new Map<string, number>();

  const onRecord = (uid: string, atMs: number, flat: readonly string[]) => {
    const names = flat.filter((_, index) => index % 2 === 0);
    const status = names.includes("status") ? flat[names.indexOf("status") * 2 + 1] : undefined;
    if (status === "queued") {
      const queued = { uid, released: names.includes("released_epoch"), queuedAtMs: atMs };
      waiting.set(uid, queued);
      all.push(queued);
    }
    const waited = waiting.get(uid);
    if (status === "running" && waited) {
      waited.claimedAtMs = atMs;
      waiting.delete(uid);
    }
    if (status === "ended") waiting.delete(uid);
  };
  const monitor = await openMonitor(url, (seconds, [command = "", key = "", ...rest]) => {
    const record = /:agent:(sa-[0-9a-f]+)$/.exec(key);
    if (/^hset$/i.test(command) && record) return onRecord(record[1] ?? "", Number(seconds) * 1_000, rest);
    if (!/^xadd$/i.test(command) || !key.endsWith(":replies")) return;
    const field = (name: string) => rest[rest.indexOf(name) + 1] ?? "";
    if (field("kind") !== "message") entries.set(field("uid"), (entries.get(field("uid")) ?? 0) + 1);
  });
  closeAtEnd(monitor.stop);
  return {
    all,
    entries,
    caughtUp: () => monitor.caughtUp(),
    waits: (which, nowMs) =>
      all
        .filter(({ released }) => which === "all" || released)
        .map(({ queuedAtMs, claimedAtMs = nowMs }) => claimedAtMs - queuedAtMs),
  };
}
