/** Finds happenings that a Redis could not report before it died, in the data it has after the restart. */
import type { Redis } from "ioredis";
import type { Keys } from "../../src/shared/protocol/keys.ts";
import type { RecordedChange } from "./chronicle.ts";
import { PARENT_IDS } from "./load.ts";

/** Returns the happenings that Redis' data shows and `known` lacks, with the time `at`. */
export async function missedHappenings(
  redis: Redis,
  keys: Keys,
  known: readonly RecordedChange[],
  at: number,
): Promise<RecordedChange[]> {
  const ledger = knownThings(known);
  const missed: RecordedChange[] = [];
  for (const parentId of PARENT_IDS) {
    const parent = { tenant: "default", parentId };
    for (const uid of await redis.hkeys(keys.parent(parent).live)) {
      const { record, log } = keys.agent({ ...parent, uid });
      const [fields, entries] = await Promise.all([redis.hgetall(record), redis.hgetall(log)]);
      const { agent_id: agentId = "", status = "", worker = "", epoch, crashes_without_progress } = fields;
      if (!ledger.has(`spawned ${uid}`)) missed.push({ at, uid, what: "spawned", agentId, parentId });
      if (status === "running" && !ledger.has(`claimed ${uid} ${epoch}`)) {
        const crashesWithoutProgress = Number(crashes_without_progress);
        missed.push({ at, uid, what: "claimed", epoch: Number(epoch), worker, crashesWithoutProgress });
      } else if (status !== "running") {
        missed.push({ at, uid, what: "status", status, epoch: Number(epoch) });
      }
      for (const [entry, json] of Object.entries(entries)) {
        if (ledger.has(`committed ${uid} ${entry}`)) continue;
        missed.push({ at, uid, what: "committed", entry, interrupted: json.includes('"interrupted":true') });
      }
    }
    for (const [, flat] of await redis.xrange(keys.parent(parent).replies, "-", "+")) {
      const field = (name: string) => flat[flat.indexOf(name) + 1] ?? "";
      const [uid, replyId, kind] = [field("uid"), field("reply_id"), field("kind")];
      if (ledger.has(`entry ${replyId}`)) continue;
      missed.push({ at, uid, what: "entry", replyId, kind, status: field("status") });
      missed.push({ at, uid, what: "status", status: field("agent_status"), epoch: undefined });
    }
  }
  return missed;
}

function knownThings(known: readonly RecordedChange[]): ReadonlySet<string> {
  return new Set(
    known.map((one) => {
      if (one.what === "claimed") return `claimed ${one.uid} ${one.epoch}`;
      if (one.what === "committed") return `committed ${one.uid} ${one.entry}`;
      return one.what === "entry" ? `entry ${one.replyId}` : `${one.what} ${one.uid}`;
    }),
  );
}
