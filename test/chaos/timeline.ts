/** The events of one agent in time order: claims, commits, model calls, tools, entries, and concurrent faults. Pure. */
import type { RecordedChange } from "./chronicle.ts";
import type { Evidence } from "./evidence.ts";
import { namedCalls } from "./oracle-turns.ts";
import type { Fault } from "./strikes.ts";

interface Moment {
  at: number;
  text: string;
}

/** Returns all known events of `uid`, one per line; times are ms since the first. */
export function timelineOf(uid: string, evidence: Evidence): string[] {
  const own = [
    ...evidence.happenings.filter((one) => one.uid === uid).map(ofRedis),
    ...ofModel(uid, evidence),
    ...evidence.journal
      .filter((line) => line.uid === uid)
      .map(({ at, pid, name, call, what }) => ({
        at,
        text: `tool    ${name} ${call} ${what} in process ${pid}`,
      })),
    ...evidence.load.seen
      .filter(({ entry }) => entry.reply_id.startsWith(`${uid}.`))
      .map(({ at, entry, first }) => ({ at, text: `parent  sees ${entry.reply_id}; ack: ${first}` })),
  ].sort((a, b) => a.at - b.at);
  const [from, to] = [own[0]?.at ?? 0, own.at(-1)?.at ?? 0];
  const around = evidence.faults.flatMap(ofFault).filter(({ at }) => at >= from && at <= to);
  return [...own, ...around]
    .sort((a, b) => a.at - b.at)
    .map(({ at, text }) => `${(at - from).toFixed(1).padStart(10)}  ${text}`);
}

function ofRedis(one: RecordedChange): Moment {
  const { at } = one;
  switch (one.what) {
    case "spawned":
      return { at, text: `redis   spawned as ${one.agentId} of ${one.parentId}` };
    case "claimed":
      return {
        at,
        text: `redis   claimed by ${one.worker}, epoch ${one.epoch}, ${one.crashesWithoutProgress} barren deaths`,
      };
    case "taken":
      return { at, text: `redis   wake ${one.wake} is taken by a worker` };
    case "status":
      return { at, text: `redis   is ${one.status}${one.epoch === undefined ? "" : `, epoch ${one.epoch}`}` };
    case "committed":
      return { at, text: `redis   log has ${one.entry}${one.interrupted ? " (interrupted)" : ""}` };
    case "entry":
      return { at, text: `redis   channel has ${one.replyId}: ${one.kind} ${one.status}` };
  }
}

function ofModel(uid: string, { ledger }: Evidence): Moment[] {
  return namedCalls(ledger)
    .filter((named) => named.uid === uid)
    .flatMap(({ call, message, epoch }) => {
      const name = `message ${message} for epoch ${epoch}`;
      const how = call.error_type ?? call.stop_reason ?? "";
      return [
        { at: call.began_at, text: `model   is asked for ${name}` },
        { at: call.at, text: `model   ${call.status} ${name} ${how}` },
      ];
    });
}

function ofFault({ kind, at, endedAt, victim, jumpMs }: Fault): Moment[] {
  const whom = victim ? `${victim.worker} (process ${victim.pid})` : "Redis";
  if (jumpMs !== undefined) return [{ at, text: `FAULT   ${kind} of ${whom} jumps by ${jumpMs} ms` }];
  const lasting = kind === "kill" ? [] : [{ at: endedAt, text: `FAULT   ${kind} of ${whom} is over` }];
  return [{ at, text: `FAULT   ${kind} of ${whom}` }, ...lasting];
}
