/**
 * The parents of a tenant in the API: a page of the tenant's index, with a snapshot of each parent.
 *
 * 1. Other tenants' parents affect neither the cost nor the content of a page.
 * 2. The index changes while it is read: a parent that becomes active meanwhile may appear twice. A parent that was not
 *    active meanwhile is not missed.
 */
import type { ClientResources } from "../../producer/client-resources.ts";
import { pauseWaitOf } from "../../producer/task-wait-reasons.ts";
import { inBatches } from "../../shared/batch.ts";
import { type AgentStatus, isoTime } from "../../shared/protocol/agent.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { redisNowMs } from "../../shared/redis/redis-time.ts";
import { type ParentState, readParentState, readTenantParents } from "../../shared/redis/survey.ts";
import type { ParentList, ParentView } from "./schema.ts";

const LOOKED_AT_ONCE = 10;

/**
 * A page. `unreadable`: parents on it with data that cannot be read. `next`: index of the next page's first entry; undefined
 * after the last entry. `waits`: see {@link ParentList}.
 */
export interface ParentPage {
  waits: ParentList["waits"];
  parents: ParentView[];
  unreadable: { parent_id: string; problem: string }[];
  next: number | undefined;
}

/** Reads up to `limit` parents of `tenant`, the last active first, from entry `from` of its index on. */
export async function readParentPage(
  client: ClientResources,
  tenant: string,
  from: number,
  limit: number,
): Promise<ParentPage> {
  const { redis, keys, store, read } = client;
  // The range has one entry more than `limit`: it shows whether there is another page.
  const range = [from, from + limit] as const;
  const [found, nowMs] = await read(() =>
    Promise.all([readTenantParents(redis, keys, tenant, range), redisNowMs(redis)]),
  );
  const page = await inBatches(found.slice(0, limit), LOOKED_AT_ONCE, async ({ parent, activeAtMs }) => {
    const state = await read(() => readParentState({ redis, keys, store }, parent, nowMs));
    return { parent, activeAtMs, state };
  });
  const parents = page.flatMap(({ state, ...each }) => ("problem" in state ? [] : viewOf(each, state)));
  return {
    parents,
    waits: await waitOfAll(client, parents),
    unreadable: page.flatMap(({ state, parent }) =>
      "problem" in state ? { parent_id: parent.parentId, problem: state.problem } : [],
    ),
    next: found.length > limit ? from + limit : undefined,
  };
}

/** Returns what every run waits for. Whether a worker is live is read only where one of `parents` has a queued agent. */
async function waitOfAll(
  { read, pause, workers }: ClientResources,
  parents: readonly ParentView[],
): Promise<ParentList["waits"]> {
  const paused = pauseWaitOf(await pause.state());
  if (paused) return paused;
  if (!parents.some(({ live }) => live.queued > 0)) return undefined;
  return (await read(() => workers.isAnyLive())) ? undefined : { for: "worker" };
}

function viewOf(
  { parent, activeAtMs }: { parent: ParentAddress; activeAtMs: number },
  { agents, today: { turns, tokens, cost_usd }, unacked }: ParentState,
): ParentView {
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
