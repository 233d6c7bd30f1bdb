/**
 * Spawning: creates the agent of a caller's spawn under the registered profile of its parent, or refuses the spawn and leaves
 * nothing behind.
 */

import { SubagentError } from "../shared/errors.ts";
import { type AgentSpec, IDLE_EXPIRY, InForce, isoTime } from "../shared/protocol/agent.ts";
import { newUid } from "../shared/protocol/ids.ts";
import { type AgentAddress, agentOf, FIRST_WAKE, wakeOf } from "../shared/protocol/keys.ts";
import { type Limits, MAX_LIVE_AGENTS } from "../shared/protocol/limits.ts";
import { attachmentKey, type InboxMessage } from "../shared/protocol/message.ts";
import { listsTool } from "../shared/protocol/permissions.ts";
import { needsOf } from "../shared/protocol/worker.ts";
import { withDeadlineHint } from "../shared/redis/deadline-hint.ts";
import type { VerbAnswer, VerbInput } from "../shared/redis/scripts.ts";
import { activeTraceparent } from "../shared/telemetry.ts";
import type { ClientResources } from "./client-resources.ts";
import { tooWideError } from "./inheritance.ts";
import { type RegisteredProfile, UNREGISTERED } from "./input.ts";
import { type ParentCall, type ParentContext, withCall } from "./parent-context.ts";
import type { SafeRepeat } from "./redis-call.ts";
import {
  type CheckedSpawn,
  checkSpawn,
  type PreparedSpawn,
  type SpawnInput,
  withJsonSchema,
} from "./spawn-input.ts";

/** Maximum attempts of one spawn while the profile keeps changing. */
const MOST_TRIES = 8;

/** The tools of a new agent, and the requested tools that no worker has. */
export interface AllowedTools {
  tools: string[] | undefined;
  unknown: string[];
}

/**
 * Returns the allowlist to store. Throws `invalid_input` for a known tool outside the parent's list. Reports unknown tools,
 * and keeps them only if the parent's list has them or the parent has no list. Leaves out `disallowed` ones: no run waits for
 * a worker that has them. `what`: the refused call.
 */
export function resolveTools(
  profileTools: readonly string[] | undefined,
  requested: readonly string[] | undefined,
  known: ReadonlySet<string>,
  disallowed: readonly string[] = [],
  what = "spawn",
): AllowedTools {
  const asked = (requested ?? profileTools)?.filter((tool) => !listsTool(disallowed, tool));
  if (!asked) return { tools: undefined, unknown: [] };
  const allowed = (tool: string) => listsTool(profileTools, tool);
  const refused = asked.filter((tool) => known.has(tool) && !allowed(tool));
  if (refused.length > 0) throw tooWideError(what, "tools", refused, profileTools);
  return { tools: asked.filter(allowed), unknown: asked.filter((tool) => !known.has(tool)) };
}

/**
 * Throws `invalid_input` if no worker has any of the tools: such an agent could only guess. `what`: the refused call;
 * `isInherited`: the profile names the tools, and the spawn names none.
 */
function refuseAllUnknown(
  what: string,
  tools: readonly string[] | undefined,
  unknown: readonly string[],
  isInherited: boolean,
): void {
  if (!tools || unknown.length === 0 || tools.some((tool) => !unknown.includes(tool))) return;
  const names = unknown.join(", ");
  const which = isInherited ? `${names}, which the parent's profile names` : names;
  throw new SubagentError(
    "invalid_input",
    `${what} refused, nothing was done: no worker has any of the tools ${which}; correct the names, or start a worker that has them.`,
    { field: "tools", unknown_tools: unknown },
  );
}

/**
 * The receipt of a spawn. `known`: an earlier call with this request key spawned the agent, and this call did nothing.
 * `limits` are the limits in force. No live worker has `unknown_tools`: the agent works without them. If no worker was live
 * at all, or workers were coming back after Redis had been away, its runs wait for a worker that has them.
 */
export interface SpawnReceipt {
  agent_id: string;
  status: "created";
  known: boolean;
  name: string;
  /** ISO 8601, Redis' clock. */
  created_at: string;
  model: string;
  limits: Limits;
  unknown_tools: string[];
  /**
   * Other settings in force that the profile, the definition or this spawn sets. Its `tools` include the `unknown_tools` that
   * the profile's list allows: a worker that comes with one of them offers it.
   */
  in_force: InForce;
}

/** A spawned agent. */
export interface Spawned {
  address: AgentAddress;
  receipt: SpawnReceipt;
}

/** Creates an agent that waits for its first message; see `Parent.spawn`. */
export async function spawn(context: ParentContext, input: SpawnInput): Promise<SpawnReceipt> {
  const checked = checkSpawn("spawn", withJsonSchema(input, "spawn").input, context);
  const { receipt } = await withCall(context, (call) => spawnAgent(call, checked));
  return receipt;
}

/**
 * Spawns under `uid` and the profile that this client has cached. If that profile refuses the spawn, or the script answers
 * that another one is registered, it spawns again under the registered one. Rejects with `invalid_input` (wider than the
 * registered profile), `conflict` (request key used with other arguments), `quota_exceeded`, `invalid_config` (a Redis unfit
 * for production), `redis_unavailable` or `outcome_unknown`.
 */
export async function spawnAgent(
  call: ParentCall,
  checked: CheckedSpawn,
  uid: string = newUid(),
): Promise<Spawned> {
  await call.client.requireDurable(call);
  try {
    return await spawnAsRegistered(call, checked, uid);
  } catch (error) {
    if (isRefusal(error)) return spawnedBefore(call, checked, error);
    throw error;
  }
}

async function spawnAsRegistered(call: ParentCall, checked: CheckedSpawn, uid: string): Promise<Spawned> {
  const { profiles } = call.client;
  // The profile that Redis returns goes into the next try by itself: the cache may have dropped it by then.
  let registered = profiles.known(call.parent) ?? UNREGISTERED;
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    try {
      const spawned = await trySpawn(call, checked.withProfile(registered), uid);
      if (!("version" in spawned)) return spawned;
      registered = spawned;
    } catch (error) {
      if (!dependsOnProfile(error)) throw error;
      const { version } = registered;
      registered = await profiles.read(call, call.parent);
      if (registered.version === version) throw error;
    }
  }
  throw new SubagentError(
    "outcome_unknown",
    "Other processes keep changing the profile of this parent: nothing was done, call again.",
    { parent_id: call.parent.parentId },
  );
}

/** Rejects if `registered` refuses `checked`, unless an earlier call with the same request key was accepted. */
export async function requireAllowed(
  context: ParentContext,
  checked: CheckedSpawn,
  registered: RegisteredProfile,
): Promise<void> {
  try {
    checked.withProfile(registered);
  } catch (error) {
    await withCall(context, (call) => spawnedBefore(call, checked, error));
  }
}

/** Returns whether the error refuses the call's arguments by rules that an earlier identical call may have passed. */
function isRefusal(error: unknown): boolean {
  return dependsOnProfile(error) || (error instanceof SubagentError && error.code === "unknown_definition");
}

/**
 * Returns the agent that an earlier call with the same request key made: a rule that came later refuses only new agents.
 * Rejects with `refusal` if Redis remembers no such call.
 */
export async function spawnedBefore(
  call: ParentCall,
  { repeatable }: Pick<CheckedSpawn, "repeatable">,
  refusal: unknown,
): Promise<Spawned> {
  if (!repeatable) throw refusal;
  const { client, parent, read } = call;
  const seen = await read(() => client.store.spawnedWith(parent, repeatable.requestKey));
  if (seen?.digest !== repeatable.digest) throw refusal;
  const { address, record } = await earlierAgent(call, seen);
  if (!record) throw refusal;
  const { name, spec } = record;
  const { names } = await client.knownTools(call, spec.tools ?? []);
  const unknown = [...(spec.unknown_tools ?? []), ...(spec.tools ?? []).filter((tool) => !names.has(tool))];
  return { address, receipt: { ...receiptOf({ name }, seen, spec, unknown), known: true } };
}

/** Reads the agent that an earlier call with the same request key made, and adds its wake again if it is queued. */
async function earlierAgent(call: ParentCall, { uid, agent_id }: { uid: string; agent_id: string }) {
  const { client, parent } = call;
  const address = agentOf(parent, uid);
  const record = await call.read(() => client.store.record(address));
  // The earlier call may have ended before it added the wake; a second wake is harmless.
  if (record?.status === "queued")
    await call.attempt(() => client.wakes.add(wakeOf(address, agent_id, record.wake)));
  return { address, record };
}

/** Returns whether another profile might allow the refused spawn. */
function dependsOnProfile(error: unknown): boolean {
  return error instanceof SubagentError && (error.code === "invalid_input" || error.code === "unknown_price");
}

/** Spawns the agent; returns the registered profile instead if it has another version than the one in `prepared`. */
async function trySpawn(
  call: ParentCall,
  prepared: PreparedSpawn,
  uid: string,
): Promise<Spawned | RegisteredProfile> {
  const { client, parent } = call;
  const { profileTools, requestedTools, what } = prepared;
  const known = await client.knownTools(call, requestedTools ?? profileTools ?? []);
  const { disallowed_tools: disallowed } = prepared.spec;
  const { tools, unknown } = resolveTools(profileTools, requestedTools, known.names, disallowed, what);
  if (known.areAll) refuseAllUnknown(what, tools, unknown, !requestedTools);
  // The run waits only for tools that some worker has; for all of them while workers may be missing from the list.
  const needed = tools?.filter((tool) => !known.areAll || known.names.has(tool));
  const { traceparent = await activeTraceparent() } = prepared.spec;
  const leftOut = unknown.filter((tool) => !tools?.includes(tool));
  const spec = {
    ...prepared.spec,
    ...(tools && { tools }),
    ...(leftOut.length > 0 && { unknown_tools: leftOut }),
    ...(traceparent && { traceparent }),
  };
  const address = agentOf(parent, uid);
  const answer = await writeSpawn(call, address, storedForm(prepared, spec, needed));
  switch (answer.status) {
    case "spawned":
      return { address, receipt: receiptOf(prepared, answer, spec, unknown) };
    case "same": {
      // Our own uid: the first attempt worked and only its answer was lost.
      if (answer.uid === uid) return { address, receipt: receiptOf(prepared, answer, spec, unknown) };
      const earlier = await earlierAgent(call, answer);
      const receipt = receiptOf(prepared, answer, earlier.record?.spec ?? spec, unknown);
      return { address: earlier.address, receipt: { ...receipt, known: true } };
    }
    case "conflict":
      throw new SubagentError(
        "conflict",
        `request_key "${prepared.requestKey}" was used with other arguments (for "${answer.agent_id}"): use a new key.`,
        { request_key: prepared.requestKey, agent_id: answer.agent_id },
      );
    case "other_profile":
      return client.profiles.learn(parent, answer);
    case "no_transcript":
      throw unknownTranscript(prepared.resumes?.agentId ?? prepared.name);
    case "quota":
      throw await quotaExceeded(call);
  }
}

/** Returns the error for an agent whose conversation is no longer kept, or that has had none. */
export function unknownTranscript(agent: string): SubagentError {
  return new SubagentError(
    "unknown_transcript",
    `No transcript of "${agent}" is kept: it ended before its first answer, or the ack of its end deleted it (transcript_ms in a profile keeps it longer); spawn a new one.`,
  );
}

function receiptOf(
  { name }: Pick<PreparedSpawn, "name">,
  { agent_id, created_at }: { agent_id: string; created_at: number },
  spec: AgentSpec,
  unknown_tools: string[],
): SpawnReceipt {
  const born = isoTime(created_at);
  const { model, limits } = spec;
  return {
    agent_id,
    status: "created",
    known: false,
    name,
    created_at: born,
    model,
    limits,
    unknown_tools,
    in_force: InForce.parse(spec),
  };
}

function storedForm(
  { name, stem, requestKey, promised, digest, prompt, attached, onParentGone, resumes }: PreparedSpawn,
  spec: AgentSpec,
  neededTools: readonly string[] | undefined,
): VerbInput<"spawn"> {
  const message = prompt === undefined ? undefined : firstMessage(requestKey, prompt);
  return {
    request_key: requestKey,
    digest,
    stem,
    name,
    spec: JSON.stringify(spec),
    needs_tools: needsOf({ ...spec, tools: neededTools }),
    idle_ms: spec.idle_ms,
    on_parent_gone: onParentGone,
    message,
    ...(attached !== undefined && { attached, attached_to: attachmentKey() }),
    promised,
    profile_version: spec.profile_version,
    transcript_ms: spec.transcript_ms,
    resumes: resumes?.uid,
    first_run: resumes?.run,
    log_bytes: resumes?.logBytes,
  };
}

function firstMessage(messageId: string, text: string): string {
  return JSON.stringify({ v: 1, message_id: messageId, text } satisfies InboxMessage);
}

/** Writes the agent. If overdue agents fill the quota, ends them and sends the verb once more. */
async function writeSpawn(
  { client, ...call }: ParentCall,
  address: AgentAddress,
  stored: VerbInput<"spawn">,
) {
  const repeat: SafeRepeat = {
    what: stored.message === undefined ? "the spawn" : "the start of the task",
    key: { request_key: stored.request_key },
  };
  const write = () => call.write(repeat, () => sendSpawn(client, address, stored), hasSpawned);
  const answer = await write();
  if (answer.status !== "quota" || answer.overdue.length === 0) return answer;
  const endIdle = (uid: string) => client.store.settle(agentOf(address, uid), IDLE_EXPIRY);
  await call.read(() => Promise.all(answer.overdue.map(endIdle)));
  return write();
}

/** Returns false for a refusal, which changed nothing. */
function hasSpawned({ status }: VerbAnswer<"spawn">): boolean {
  return status === "spawned" || status === "same";
}

/** Sends the deadline hint and the verb. If the verb queued a first run, adds its wake in the background. */
async function sendSpawn(client: ClientResources, address: AgentAddress, stored: VerbInput<"spawn">) {
  const answer = await sendHinted(client, address, stored);
  // `same` under our own uid: an earlier attempt worked and its answer was lost, so the agent has no wake yet.
  const isOurs = answer.status === "spawned" || (answer.status === "same" && answer.uid === address.uid);
  if (isOurs && stored.message !== undefined)
    client.inBackground(client.wakes.add(wakeOf(address, answer.agent_id, FIRST_WAKE)));
  return answer;
}

/**
 * Sends the hint and then the verb in one flight over one connection, so that a crash in between leaves no agent without a
 * hint. A cluster has several connections, which keep no common order: there the verb waits for the hint.
 */
async function sendHinted(client: ClientResources, address: AgentAddress, stored: VerbInput<"spawn">) {
  const { deadlines, store, timing, redis, logger, inBackground } = client;
  const checkInMs = stored.message === undefined ? stored.idle_ms : timing.checkMs;
  const hint = () => deadlines.hintByParent(address, checkInMs);
  if (redis.isCluster) {
    await hint();
    return store.spawn(address, stored);
  }
  return client.inOneFlight(() =>
    withDeadlineHint(hint, () => store.spawn(address, stored), { logger, uid: address.uid, inBackground }),
  );
}

async function quotaExceeded({ read, client, parent }: ParentCall): Promise<SubagentError> {
  const agents = (await read(() => client.store.liveIds(parent))).sort();
  return new SubagentError(
    "quota_exceeded",
    `This parent has ${MAX_LIVE_AGENTS} live sub-agents, the most allowed: wait for one to finish or destroy one of ${agents.join(", ")}.`,
    { max_live: MAX_LIVE_AGENTS, agents },
  );
}
