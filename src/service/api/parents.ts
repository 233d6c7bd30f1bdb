/**
 * The parents of a tenant as the API shows them: a page of the installation's index of parents, and what stands about each.
 *
 * 1. A request reads at most {@link MOST_READ} entries of the index, however many parents other tenants have.
 * 2. The index moves while it is read: a parent that becomes active meanwhile may be seen twice, and none is missed that was
 *    not active.
 */
import type { OpenClient } from "../../producer/open-client.ts";
import { type AgentStatus, isoTime } from "../../shared/protocol/agent.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { inBatches } from "../../shared/redis/inspection.ts";
import { readParentRanks } from "../../shared/redis/survey.ts";
import type { ParentSight } from "./schema.ts";

const MOST_READ = 2_000;
const READ_AT_ONCE = 200;
const LOOKED_AT_ONCE = 10;

/** A page: `next` is where the next one begins; undefined behind the last entry. */
export interface ParentPage {
  parents: ParentSight[];
  next: number | undefined;
}

/** Up to `limit` parents of `tenant`, the last active first, from entry `from` of the index on. */
export async function readParentPage(
  client: OpenClient,
  tenant: string,
  from: number,
  limit: number,
): Promise<ParentPage> {
  const { found, next } = await findParents(client, tenant, from, limit);
  const nowMs = client.clock.now();
  const parents = await inBatches(found, LOOKED_AT_ONCE, (each) => sightOf(client, each, nowMs));
  return { parents, next };
}

interface Found {
  parent: ParentAddress;
  activeAtMs: number;
}

async function findParents(client: OpenClient, tenant: string, from: number, limit: number) {
  const { redis, keys, call } = client;
  const found: Found[] = [];
  for (let at = from; at < from + MOST_READ; at += READ_AT_ONCE) {
    const entries = await call(({ read }) =>
      read(() => readParentRanks(redis, keys, at, at + READ_AT_ONCE - 1)),
    );
    for (const [n, { parent, activeAtMs }] of entries.entries()) {
      if (parent?.tenant !== tenant) continue;
      if (found.length === limit) return { found, next: at + n };
      found.push({ parent, activeAtMs });
    }
    if (entries.length < READ_AT_ONCE) return { found, next: undefined };
  }
  return { found, next: from + MOST_READ };
}

async function sightOf(
  client: OpenClient,
  { parent, activeAtMs }: Found,
  nowMs: number,
): Promise<ParentSight> {
  const { redis, keys, call, store } = client;
  const [agents, { turns, tokens, cost_usd }, unacked] = await call(({ read }) =>
    Promise.all([
      read(() => store.liveRecords(parent)),
      read(() => store.usage(parent, nowMs)),
      read(() => redis.xlen(keys.parent(parent).replies)),
    ]),
  );
  const count = (status: AgentStatus) => agents.filter((agent) => agent.status === status).length;
  return {
    parent_id: parent.parentId,
    active_at: isoTime(activeAtMs),
    live: {
      running: count("running"),
      queued: count("queued"),
      waiting: count("waiting"),
      idle: count("idle"),
    },
    unacked,
    today: { turns, tokens, cost_usd },
  };
}
