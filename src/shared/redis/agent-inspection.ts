/**
 * Looks at agents from outside, as an operator does: changes nothing but by `mend`, whose guard is the record itself.
 * Owns no state. Its neighbours: `key-survey.ts` finds the agents, the sweeper does what is due.
 */
import { AgentStatus, PAYLOAD_VERSION } from "../protocol/agent.ts";
import { type AgentAddress, deadlineMember, type Keys } from "../protocol/keys.ts";
import type { Timing } from "../protocol/timing.ts";
import { type AgentSight, overdueMs, type UnreadableAgent } from "./agent-sight.ts";
import { inBatches } from "./batches.ts";
import type { RedisClient } from "./connection.ts";
import type { Answer } from "./script-table.ts";
import { loadScripts } from "./scripts.ts";
import type { WakeQueue } from "./wake-queue.ts";

/** What came of looking at many agents. */
export interface Inspected {
  sights: AgentSight[];
  unreadable: UnreadableAgent[];
}

/** See the module's header. */
export interface AgentInspection {
  /** Looks at each of `agents`; those overdue by more than `graceMs` are asked for the job of their wake. */
  inspect(agents: readonly AgentAddress[], graceMs: number): Promise<Inspected>;
  /** Brings the keys around an agent in line with its record. Idempotent. */
  mend(agent: AgentAddress): Promise<Answer<"mend">>;
}

/** So many agents are looked at side by side: Redis serves others in between. */
const BATCH = 200;

/** An inspection over `redis`. */
export function createAgentInspection(
  redis: RedisClient,
  keys: Keys,
  wakes: Pick<WakeQueue, "isAlive">,
  timing: Timing,
): AgentInspection {
  const scripts = loadScripts(redis);
  const keysOf = (address: AgentAddress) => {
    const { record, log, inbox, life, steps } = keys.agent(address);
    const { live, registry } = keys.parent(address);
    return { record, log, inbox, life, steps, live, registry };
  };
  const look = async (address: AgentAddress, graceMs: number): Promise<AgentSight | UnreadableAgent> => {
    let sight: AgentSight;
    try {
      sight = sightOf(address, await scripts.run("inspect", keysOf(address), { uid: address.uid }));
    } catch (error) {
      if (error instanceof Error && error.message.includes("WRONGTYPE")) {
        return { address, problem: "a key of it is of another type" };
      }
      throw error;
    }
    if (isStrange(sight)) return { address, problem: "its record has a status that is none" };
    const nextLook = await redis.zscore(keys.deadlines, deadlineMember(address));
    const seen = { ...sight, nextLookMs: nextLook === null ? undefined : Number(nextLook) };
    if (!seen.record || overdueMs(seen) <= graceMs) return seen;
    return { ...seen, isWakeAlive: await wakes.isAlive({ uid: address.uid, wake: seen.record.wake }) };
  };
  return {
    async inspect(agents, graceMs) {
      const found = await inBatches(agents, BATCH, (address) => look(address, graceMs));
      return {
        sights: found.filter((each) => "nowMs" in each),
        unreadable: found.filter((each) => "problem" in each),
      };
    },
    mend: (address) =>
      scripts.run("mend", keysOf(address), { uid: address.uid, registry_ttl_ms: timing.registryTtlMs }),
  };
}

/** Whether something else has written into the record: a newer version alone may have other states. */
function isStrange({ record }: AgentSight): boolean {
  return (
    record !== undefined &&
    record.version <= PAYLOAD_VERSION &&
    !AgentStatus.options.some((status) => status === record.status)
  );
}

function sightOf(address: AgentAddress, seen: Answer<"inspect">): AgentSight {
  const around = {
    address,
    nowMs: Number(seen.now),
    lifeMs: Number(seen.life_ms),
    log: Number(seen.log),
    inbox: Number(seen.inbox),
    isCounted: seen.counted === "1",
    nextLookMs: undefined,
  };
  if (seen.status === "gone") return { ...around, record: undefined, steps: Number(seen.steps) };
  return {
    ...around,
    steps: 0,
    record: {
      version: Number(seen.version),
      agentId: seen.agent_id,
      status: seen.agent_status,
      deadline: Number(seen.deadline),
      leaseUntil: Number(seen.lease_until),
      unansweredSince: Number(seen.since),
      maxAgeMs: Number(seen.max_age_ms),
      wake: Number(seen.wake),
      worker: seen.worker,
      barrenDeaths: Number(seen.barren_deaths),
      isNamed: seen.named === "1",
    },
  };
}
