/** Pictures of a parent's agents in Redis: what the checker compares before and after every call. */
import { type AgentAddress, deadlineMember } from "../../../../src/shared/protocol/keys.ts";
import type { Rig } from "../rig.ts";

/** One agent as Redis holds it. */
export interface AgentShot {
  record: Readonly<Record<string, string>>;
  log: Readonly<Record<string, string>>;
  /** The log of an agent that has ended. */
  transcript: Readonly<Record<string, string>>;
  inbox: readonly string[];
  /** Answer of PTTL: ms left, -1 without limit, -2 gone. */
  lifeMs: number;
  /** When the life key runs out, epoch ms; at most this. */
  lifeEndMs: number;
  /** When somebody will look, epoch ms; undefined = nobody will. */
  score: number | undefined;
}
/** One entry of the reply stream. */
export interface EntryShot {
  id: string;
  fields: Readonly<Record<string, string>>;
}
/** A picture; `fresh` holds the stream's entries behind the ones of the picture before. */
export interface Shot {
  nowMs: number;
  agents: ReadonlyMap<string, AgentShot>;
  live: Readonly<Record<string, string>>;
  fresh: readonly EntryShot[];
  /** Id of the newest entry that was ever seen. */
  cursor: string;
}

/** The picture before anything has happened. */
export const NOTHING: Shot = { nowMs: 0, agents: new Map(), live: {}, fresh: [], cursor: "0" };

/** A new picture in which `agents` are looked at again; all others are taken over from `previous`. */
export async function takeShot(rig: Rig, previous: Shot, agents: readonly AgentAddress[]): Promise<Shot> {
  const { live, replies } = rig.keys.parent(rig.parent);
  // In a cluster the parent's keys and the deadlines lie in two slots, and a pipeline leads to one.
  const pipeline = rig.redis.pipeline().time();
  const looks = rig.redis.pipeline();
  for (const agent of agents) {
    const { record, log, transcript, inbox, life } = rig.keys.agent(agent);
    pipeline.hgetall(record).hgetall(log).hgetall(transcript).lrange(inbox, 0, -1).pttl(life);
    looks.zscore(rig.keys.deadlines, deadlineMember(agent));
  }
  pipeline.hgetall(live).xrange(replies, `(${previous.cursor}`, "+").time();
  const [answers, scores] = await Promise.all([pipeline.exec(), looks.exec()]);
  const at = <T>(i: number) => answers?.[i]?.[1] as T;
  const startMs = epochMs(at(0));
  const seen = new Map(previous.agents);
  for (const [n, agent] of agents.entries()) {
    const i = 1 + n * 5;
    const score = scores?.[n]?.[1] as string | null | undefined;
    const lifeMs = at<number>(i + 4);
    seen.set(agent.uid, {
      record: at<Record<string, string>>(i),
      log: at<Record<string, string>>(i + 1),
      transcript: at<Record<string, string>>(i + 2),
      inbox: at<string[]>(i + 3),
      lifeMs,
      lifeEndMs: lifeMs === -1 ? Number.POSITIVE_INFINITY : startMs + lifeMs,
      score: score == null ? undefined : Number(score),
    });
  }
  const rest = 1 + agents.length * 5;
  const fresh = at<[string, string[]][]>(rest + 1).map(([id, flat]) => ({ id, fields: pairs(flat) }));
  return {
    nowMs: epochMs(at(rest + 2)),
    agents: seen,
    live: at<Record<string, string>>(rest),
    fresh,
    cursor: fresh.at(-1)?.id ?? previous.cursor,
  };
}

function epochMs([seconds, micros]: [string, string]): number {
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

function pairs(flat: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) fields[flat[i] ?? ""] = flat[i + 1] ?? "";
  return fields;
}
