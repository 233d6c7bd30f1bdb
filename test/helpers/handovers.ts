/**
 * Records hand-overs as Redis executes them: when a worker releases an agent, when the next one claims it, and the entries
 * written for the parent. The source is MONITOR, so times are the server's and independent of the product's own reports.
 */
import { closeAtEnd } from "./cleanup.ts";
import { openMonitor } from "./monitor.ts";

/** A period in which an agent waited for a worker. Times are the server's, epoch ms. */
export interface HandOver {
  uid: string;
  /** Whether a worker released it; otherwise a message queued it. */
  released: boolean;
  queuedAtMs: number;
  /** Undefined until a worker claims it. */
  claimedAtMs?: number;
}

/** See the module's header. */
export interface HandOvers {
  /** In the order in which the agents were queued. */
  readonly all: readonly HandOver[];
  /** uid → number of entries in the parent's channel, without progress messages. */
  readonly entries: ReadonlyMap<string, number>;
  /** Returns the waiting times (ms) of the released agents or of all. For agents that still wait, they end at `nowMs`. */
  waits(which: "released" | "all", nowMs: number): number[];
  /** Resolves when everything that Redis did before this call is recorded. */
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
    // A claim writes the status that it finds before anything else: a Redis that is full refuses it there.
    if (status === "queued" && !waiting.has(uid)) {
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
