/**
 * Walks through the keys of an installation in pages, as far as it is allowed to, and says which agents and reply
 * channels there are. Reads names, and the live agents of each parent; changes nothing. What appears or goes meanwhile
 * may or may not be seen.
 */
import { ownerOfKey, parentKeysGlob } from "../protocol/key-owner.ts";
import {
  type AgentAddress,
  addressOfMember,
  deadlineMember,
  type Keys,
  type ParentAddress,
} from "../protocol/keys.ts";
import { inBatches } from "./batches.ts";
import type { RedisClient } from "./connection.ts";
import { pairs } from "./pairs.ts";
import { serversOf } from "./servers.ts";

/** How far a survey may go. */
export interface SurveyBounds {
  /** Keys of the whole Redis that are walked through. */
  keys: number;
  /** Agents that are named; those that live or should not be there any more come first. */
  agents: number;
}

/** What there is. */
export interface KeySurvey {
  agents: AgentAddress[];
  /** Parents that have a reply channel. */
  channels: ParentAddress[];
  /** Members of the deadline set that name no agent, and when somebody will look, epoch ms. */
  strangers: { member: string; nextLookMs: number }[];
  /** Which bounds were reached; empty: everything was seen. */
  reached: (keyof SurveyBounds)[];
}

const PAGE_KEYS = 1_000;
const BATCH = 200;

/** Surveys the installation under `prefix`. */
export async function surveyKeys(
  redis: RedisClient,
  keys: Keys,
  prefix: string,
  bounds: SurveyBounds,
): Promise<KeySurvey> {
  /** Agents by member: first those that live or left something behind, then those of which only a record is there. */
  const first = new Map<string, AgentAddress>();
  const recorded = new Map<string, AgentAddress>();
  const parents = new Map<string, ParentAddress>();
  const channels = new Map<string, ParentAddress>();
  const strangers = await readDeadlines(redis, keys, (address) =>
    first.set(deadlineMember(address), address),
  );

  const file = (key: string) => {
    const owned = ownerOfKey(prefix, key);
    if (!owned) return;
    const { tenant, parentId, uid, part } = owned;
    const parent = { tenant, parentId };
    if (uid !== undefined) {
      const address = { ...parent, uid };
      (part === "record" ? recorded : first).set(deadlineMember(address), address);
    } else if (part === "live") parents.set(`${tenant}/${parentId}`, parent);
    else if (part === "replies") channels.set(`${tenant}/${parentId}`, parent);
  };
  const isWhole = await walkKeys(redis, parentKeysGlob(prefix), bounds.keys, file);

  await inBatches([...parents.values()], BATCH, async (parent) => {
    for (const uid of await redis.hkeys(keys.parent(parent).live)) {
      const address = { ...parent, uid };
      first.set(deadlineMember(address), address);
    }
  });
  const agents = [...new Map([...first, ...recorded]).values()];
  const reached: (keyof SurveyBounds)[] = [];
  if (!isWhole) reached.push("keys");
  if (agents.length > bounds.agents) reached.push("agents");
  return { agents: agents.slice(0, bounds.agents), channels: [...channels.values()], strangers, reached };
}

/** Walks through the keys that match, on every server; false when it stopped after so many keys of any kind. */
async function walkKeys(
  redis: RedisClient,
  glob: string,
  mostKeys: number,
  onKey: (key: string) => void,
): Promise<boolean> {
  let walked = 0;
  for (const server of serversOf(redis)) {
    let cursor = "0";
    do {
      if (walked >= mostKeys) return false;
      const [next, page] = await server.scan(cursor, "MATCH", glob, "COUNT", PAGE_KEYS);
      cursor = next;
      walked += PAGE_KEYS;
      page.forEach(onKey);
    } while (cursor !== "0");
  }
  return true;
}

async function readDeadlines(
  redis: RedisClient,
  keys: Keys,
  onAgent: (address: AgentAddress) => void,
): Promise<KeySurvey["strangers"]> {
  const strangers: KeySurvey["strangers"] = [];
  let cursor = "0";
  do {
    const [next, page] = await redis.zscan(keys.deadlines, cursor, "COUNT", PAGE_KEYS);
    cursor = next;
    for (const [member, score] of pairs(page)) {
      const address = addressOfMember(member);
      if (address) onAgent(address);
      else strangers.push({ member, nextLookMs: Number(score) });
    }
  } while (cursor !== "0");
  return strangers;
}
