/** Translates a command reported by MONITOR into happenings of an agent. Pure. */
import type { RecordedChange } from "./chronicle.ts";

/** Returns the changes that a command at epoch ms `at` made to an agent under `prefix`; [] if none is relevant. */
export function changesOf(prefix: string, at: number, command: readonly string[]): RecordedChange[] {
  const [verb = "", key = "", ...rest] = command;
  if (key === `{${prefix}}:wakes:events`) return [wakeTaken(at, rest) ?? []].flat();
  if (!key.startsWith(`${prefix}:{`)) return [];
  if (/^xadd$/i.test(verb) && key.endsWith(":replies")) return [entryAdded(at, rest)];
  if (!/^hset$/i.test(verb)) return [];
  const [, uid, part] = /:agent:([^:]+)(?::(\w+))?$/.exec(key) ?? [];
  if (uid === undefined) return [];
  if (part === "log") return committed(at, uid, rest);
  return part === undefined ? [recordChanged(at, uid, rest) ?? []].flat() : [];
}

/** Returns whether a log entry is a step of the run: a turn, or the result of a tool. */
export function isStep(entry: string): boolean {
  return /^\d*[13579]$|\/result$/.test(entry);
}

/** Reads BullMQ's event for each job that a worker takes, also if the job was taken before. */
function wakeTaken(at: number, [, ...flat]: readonly string[]): RecordedChange | undefined {
  const { event, jobId = "" } = fieldsOf(flat);
  const [, uid, wake] = /^(.+)\.(\d+)$/.exec(jobId) ?? [];
  return event === "active" && uid !== undefined ? { at, uid, what: "taken", wake: Number(wake) } : undefined;
}

function entryAdded(at: number, [, ...flat]: readonly string[]): RecordedChange {
  const { uid = "", reply_id: replyId = "", kind = "", status = "" } = fieldsOf(flat);
  return { at, uid, what: "entry", replyId, kind, status };
}

function committed(at: number, uid: string, flat: readonly string[]): RecordedChange[] {
  return Object.entries(fieldsOf(flat)).map(([entry, value = ""]) => {
    return { at, uid, what: "committed", entry, interrupted: /interrupted\W+true/.test(value) };
  });
}

function recordChanged(at: number, uid: string, flat: readonly string[]): RecordedChange | undefined {
  const { status, epoch, worker, settled_epoch, crashes_without_progress, agent_id, parent_id } =
    fieldsOf(flat);
  if (agent_id !== undefined && parent_id !== undefined)
    return { at, uid, what: "spawned", agentId: agent_id, parentId: parent_id };
  if (status === "running" && worker !== undefined)
    return {
      at,
      uid,
      what: "claimed",
      epoch: Number(epoch),
      worker,
      crashesWithoutProgress: Number(crashes_without_progress),
    };
  if (status === undefined) return undefined;
  const newEpoch = epoch ?? settled_epoch;
  return { at, uid, what: "status", status, epoch: newEpoch === undefined ? undefined : Number(newEpoch) };
}

function fieldsOf(flat: readonly string[]): Partial<Record<string, string>> {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) pairs.push([flat[i] ?? "", flat[i + 1] ?? ""]);
  return Object.fromEntries(pairs);
}
