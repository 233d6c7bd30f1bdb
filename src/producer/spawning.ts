/** Spawning: a prepared spawn becomes an agent, or a refusal that left nothing behind. */
import { SubagentError } from "../shared/errors.ts";
import { newUid } from "../shared/protocol/ids.ts";
import type { AgentAddress, ParentAddress } from "../shared/protocol/keys.ts";
import type { Limits } from "../shared/protocol/limits.ts";
import { MAX_LIVE_AGENTS } from "../shared/protocol/timing.ts";
import type { SpawnInput as StoredSpawn } from "../shared/redis/agent-store.ts";
import { IDLE_DEATH } from "../shared/redis/verbs.ts";
import type { Call, SafeRepeat } from "./call.ts";
import type { OpenClient } from "./client.ts";
import type { Profile } from "./profile.ts";
import { type PreparedSpawn, resolveTools } from "./spawn-arguments.ts";

/** What spawn answers. `limits` are those in force; `unknown_tools` are in no live worker and do nothing for now. */
export interface SpawnReceipt {
  agent_id: string;
  status: "created";
  name: string;
  /** ISO 8601, Redis' clock. */
  created_at: string;
  model: string;
  limits: Limits;
  unknown_tools: string[];
}

/** A spawned agent; `fresh` is false when an earlier call with the same request key had spawned it. */
export interface Spawned {
  address: AgentAddress;
  receipt: SpawnReceipt;
  fresh: boolean;
}

/**
 * Spawns under `uid`. Rejects with `invalid_input` (tools wider than the parent's), `conflict` (request key used with
 * other arguments), `quota_exceeded`, `invalid_config` (a Redis that will not do in production), `redis_unavailable` or
 * `outcome_unknown`.
 */
export async function spawnAgent(
  client: OpenClient,
  call: Call,
  profile: Profile,
  prepared: PreparedSpawn,
  uid: string = newUid(),
): Promise<Spawned> {
  const { name, stem, requestKey, digest } = prepared;
  await client.admit(call);
  const known = await client.knownTools(call, prepared.wishedTools ?? profile.tools ?? []);
  const { tools, unknown } = resolveTools(profile.tools, prepared.wishedTools, known);
  const spec = { ...prepared.spec, ...(tools && { tools }) };
  const address = { ...profile.parent, uid };
  const stored = { requestKey, digest, stem, name, spec: JSON.stringify(spec), idleMs: spec.idle_ms };

  const answer = await writeSpawn(client, call, address, stored);
  const spawned = (createdAt: string, agentId: string, { model, limits } = spec): SpawnReceipt => ({
    agent_id: agentId,
    status: "created",
    name,
    created_at: new Date(Number(createdAt)).toISOString(),
    model,
    limits,
    unknown_tools: unknown,
  });
  switch (answer.status) {
    case "spawned":
      return { address, receipt: spawned(answer.created_at, answer.agent_id), fresh: true };
    case "same": {
      // Our own uid: the first try had worked and only its answer was lost.
      if (answer.uid === uid)
        return { address, receipt: spawned(answer.created_at, answer.agent_id), fresh: true };
      const earlier = { ...profile.parent, uid: answer.uid };
      const record = await call.read(() => client.store.record(earlier));
      const receipt = spawned(answer.created_at, answer.agent_id, record?.spec);
      return { address: earlier, receipt, fresh: false };
    }
    case "conflict":
      throw new SubagentError(
        "conflict",
        `request_key "${requestKey}" was used with other arguments (for "${answer.agent_id}"): use a new key.`,
        { request_key: requestKey, agent_id: answer.agent_id },
      );
    case "quota":
      throw await quotaExceeded(client, call, profile.parent);
  }
}

/** First the hint, then the verb; overdue agents that hold a place are ended, and the verb is put once more. */
async function writeSpawn(client: OpenClient, call: Call, address: AgentAddress, stored: StoredSpawn) {
  const repeat: SafeRepeat = { what: "the spawn", key: { request_key: stored.requestKey } };
  await call.read(() => client.deadlines.touch(address, stored.idleMs));
  const write = () => call.write(repeat, () => client.store.spawn(address, stored));
  const answer = await write();
  if (answer.status !== "quota" || answer.rest.length === 0) return answer;
  const endIdle = (uid: string) => client.store.settle({ ...address, uid }, IDLE_DEATH);
  await call.read(() => Promise.all(answer.rest.map(endIdle)));
  return write();
}

async function quotaExceeded(client: OpenClient, call: Call, parent: ParentAddress): Promise<SubagentError> {
  const live = await call.read(() => client.store.liveRecords(parent));
  const agents = live.map((record) => record.agent_id).sort();
  return new SubagentError(
    "quota_exceeded",
    `This parent has ${MAX_LIVE_AGENTS} live sub-agents, the most allowed: wait for one to finish or destroy one of ${agents.join(", ")}.`,
    { max_live: MAX_LIVE_AGENTS, agents },
  );
}
