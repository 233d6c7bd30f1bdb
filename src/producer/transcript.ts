/**
 * The conversation of an agent as its parent reads it, and its continuation by a new agent. A resumed agent is a new agent:
 * its log begins with the old agent's entries, its run numbers follow the old ones, and its limits and cost begin at zero.
 */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { AgentRecord, AgentSpec } from "../shared/protocol/agent.ts";
import { newUid, RequestKey, Traceparent } from "../shared/protocol/ids.ts";
import { agentOf } from "../shared/protocol/keys.ts";
import {
  type Limits,
  leastEffort,
  MAX_LIVE_AGENTS,
  paceFor,
  TASK_LIMITS,
} from "../shared/protocol/limits.ts";
import { LOG_MAX_BYTES } from "../shared/protocol/log.ts";
import { MessageText } from "../shared/protocol/message.ts";
import { toolsInBoth } from "../shared/protocol/permissions.ts";
import {
  pageOf,
  TRANSCRIPT_PAGE,
  type TranscriptEntry,
  transcriptOf,
  withinBytes,
} from "../shared/protocol/transcript.ts";
import { type FoundAgent, logFull, withAgent } from "./agents.ts";
import { baseLimits, loadableSkills, nonEmpty, type Profile, union } from "./inheritance.ts";
import { digestOf, objectOf, type RegisteredProfile, readInput, readOptions } from "./input.ts";
import { type ParentCall, type ParentContext, withCall, withRead } from "./parent-context.ts";
import { type SpawnReceipt, spawnAgent, spawnedBefore, unknownTranscript } from "./spawn.ts";
import { type PreparedSpawn, prepare } from "./spawn-input.ts";

/** The conversation of an agent. */
export interface Transcript {
  agent_id: string;
  /** Oldest first. */
  entries: TranscriptEntry[];
  /** The `after` of the next read, if there are more entries. */
  next?: number | undefined;
}

/** The part of a transcript to read. */
export interface TranscriptOptions {
  /** Only entries after this message; default: from the beginning. */
  after?: number | undefined;
  /** Maximum entries, in whole messages; default and maximum 500. A page stays below 1 MB unless one message is larger. */
  limit?: number | undefined;
}

const PageInput = z.strictObject({
  after: z.int().min(-1).default(-1),
  limit: z.int().min(1).max(TRANSCRIPT_PAGE).default(TRANSCRIPT_PAGE),
});

/** The receipt of a resume: the new agent's receipt, and the id of the agent whose conversation it continues. */
export interface ResumeReceipt extends SpawnReceipt {
  resumes: string;
  /** Number of its first run; earlier runs are the old agent's. */
  run: number;
}

/** Options of a resume: those of a spawn that are not the old agent's. */
export interface ResumeOptions {
  /** Makes the call repeatable for 24 hours. */
  request_key?: string;
  /** The span (W3C) of the new agent's runs; default: the caller's active span, if OpenTelemetry is in use. */
  traceparent?: string;
}

const ResumeInput = z.strictObject({
  text: MessageText,
  request_key: RequestKey.optional(),
  traceparent: Traceparent.optional(),
});

/** Reads the conversation of an agent; see `Parent.transcript`. */
export async function readTranscript(
  context: ParentContext,
  agentId: unknown,
  options: TranscriptOptions = {},
): Promise<Transcript> {
  const page = readOptions(PageInput, options, "transcript");
  return withAgent(context, agentId, async ({ read, client }, agent) => {
    let next: number | undefined;
    const pick = (keys: readonly string[]) => {
      const found = pageOf(keys, page);
      next = found.next;
      return found.keys;
    };
    const within = (keys: readonly string[], bytes: readonly number[]) => {
      const found = withinBytes({ keys, ...(next !== undefined && { next }) }, bytes);
      next = found.next;
      return found.keys;
    };
    const log = await read(() => client.store.conversationPart(agent.address, pick, within));
    const more = next === undefined ? {} : { next };
    if (log) return { agent_id: agent.agentId, entries: transcriptOf(log), ...more };
    const record = await read(() => client.store.record(agent.address));
    if (!record || record.status === "ended") throw unknownTranscript(agent.agentId);
    return { agent_id: agent.agentId, entries: [] };
  });
}

/** Length, in bytes, above which a transcript is copied in pages before the spawn, each page as a call of its own. */
const LONG_BYTES = 1024 ** 2;
/** Most entries of such a page. */
const PAGE_ENTRIES = 400;

type ResumeInput = z.output<typeof ResumeInput>;

/** Spawns an agent that continues the conversation of an ended one; see `Parent.resume`. */
export async function resume(
  context: ParentContext,
  agentId: unknown,
  text: string,
  options: ResumeOptions = {},
): Promise<ResumeReceipt> {
  const input = readInput(ResumeInput, { text, ...objectOf(options, "resume") }, "resume");
  const uid = newUid();
  const spawn = (call: ParentCall, ended: AgentRecord) => spawnResumed(context, call, ended, { input, uid });
  const { ended, receipt } = await withAgent(context, agentId, async (call, agent) => {
    const record = await readEnded(call, agent);
    const refusal = refusalOf(record, input);
    if (refusal) return { ended: record, receipt: await resumedBefore(call, record, input, refusal) };
    // A long conversation takes calls of its own.
    return { ended: record, receipt: record.log_bytes > LONG_BYTES ? undefined : await spawn(call, record) };
  });
  if (receipt) return receipt;
  await copyTranscript(context, ended, uid, input.request_key ?? uid);
  return withCall(context, (call) => spawn(call, ended));
}

/** Reads the record of an ended agent. Rejects with `unknown_transcript`, or `conflict` if it has not ended. */
async function readEnded(
  { read, client }: ParentCall,
  { address, agentId }: FoundAgent,
): Promise<AgentRecord> {
  const record = await read(() => client.store.record(address));
  if (!record) throw unknownTranscript(agentId);
  if (record.status === "ended") return record;
  throw new SubagentError("conflict", `Sub-agent "${agentId}" has not ended: send it a message instead.`);
}

/** Returns why no new agent can continue the ended one: `unknown_transcript` or `log_full`; undefined if one can. */
function refusalOf(
  { agent_id: agentId, acked_by, log_bytes }: AgentRecord,
  { text }: ResumeInput,
): SubagentError | undefined {
  // The ack took its tools, system prompt, permissions and budgets.
  if (acked_by !== undefined) return unknownTranscript(agentId);
  // The log of an ended agent no longer changes, so its size is still the same when it is copied.
  if (log_bytes + Buffer.byteLength(text) < LOG_MAX_BYTES) return undefined;
  return logFull(agentId, log_bytes, "spawn a new one and tell it what it needs to know");
}

/** Returns the receipt of the agent that an earlier call with the same request key made. Rejects with `refusal` if there is none. */
async function resumedBefore(
  call: ParentCall,
  ended: AgentRecord,
  input: ResumeInput,
  refusal: SubagentError,
): Promise<ResumeReceipt> {
  const { receipt } = await spawnedBefore(call, { repeatable: repeatableOf(ended, input) }, refusal);
  return resumeReceipt(receipt, ended);
}

async function spawnResumed(
  context: ParentContext,
  call: ParentCall,
  ended: AgentRecord,
  { input, uid }: { input: ResumeInput; uid: string },
): Promise<ResumeReceipt> {
  const { profile } = context;
  const checked = {
    repeatable: repeatableOf(ended, input),
    withProfile: (registered: RegisteredProfile) =>
      prepareResumed(ended, input, { ...context, profile: profile.withProfile(registered) }),
  };
  const { receipt } = await spawnAgent(call, checked, uid);
  return resumeReceipt(receipt, ended);
}

function resumeReceipt(receipt: SpawnReceipt, { agent_id, run }: AgentRecord): ResumeReceipt {
  return { ...receipt, resumes: agent_id, run: run + 1 };
}

/** Returns the request key that the caller named, with what it covers; undefined if there is none. */
function repeatableOf(ended: AgentRecord, { request_key: requestKey, text }: ResumeInput) {
  return requestKey === undefined ? undefined : { requestKey, digest: resumeDigest(ended, { text }) };
}

/**
 * Copies the transcript of the `ended` agent to the log of the agent `uid`, unless that is not spawned: then the request key is
 * known or the quota is full. Does less than that if the transcript expires meanwhile; the spawn then says so.
 */
async function copyTranscript(
  context: ParentContext,
  ended: AgentRecord,
  uid: string,
  requestKey: string,
): Promise<void> {
  const keys = await withCall(context, async ({ read, client, parent }) => {
    const { live, isKnown } = await read(() => client.store.occupancy(parent, requestKey));
    if (isKnown || live >= MAX_LIVE_AGENTS) return [];
    const { transcript } = client.keys.agent(agentOf(parent, ended.uid));
    return read(() => client.redis.hkeys(transcript));
  });
  for (let copied = 0; copied < keys.length; ) {
    const entries = keys.slice(copied, copied + PAGE_ENTRIES).map((key) => [key] as const);
    const page = await withRead(context, ({ client, parent }) =>
      client.store["resume-page"](agentOf(parent, uid), { resumes: ended.uid, entries }),
    );
    if (page.status !== "copied") return;
    copied += page.count;
  }
}

function resumeDigest({ uid }: AgentRecord, { text }: Pick<ResumeInput, "text">): string {
  return digestOf({ kind: "resume", uid, text });
}

/** Prepares the spawn of a resumed agent: the old agent's settings, narrowed by the present profile. */
function prepareResumed(
  record: AgentRecord,
  { text, request_key, traceparent }: ResumeInput,
  { profile, operator }: Pick<ParentContext, "profile" | "operator">,
): PreparedSpawn {
  const { spec, name, uid, agent_id: agentId, log_bytes: logBytes, run } = record;
  // The old agent's settings may be longer than those of one call, so they are not read as a call's input again.
  const args = {
    name,
    prompt: text,
    ...inheritedFrom(spec, profile),
    limits: atMost(spec.limits, baseLimits(TASK_LIMITS, operator, profile.limits)),
  };
  requireToolsLeft(record, args, profile);
  const call = { request_key, traceparent, args, digest: resumeDigest(record, { text }) };
  const options = { answersTask: spec.answer_ms !== undefined, budgets: spec.budgets, what: "resume" };
  const prepared = prepare("task", call, { profile, operator }, options);
  const permissions = distinct([...(prepared.spec.permissions ?? []), ...(spec.permissions ?? [])]);
  return {
    ...prepared,
    resumes: { uid, agentId, logBytes, run: run + 1 },
    spec: {
      ...prepared.spec,
      keep_alive: spec.keep_alive,
      idle_ms: Math.min(spec.idle_ms, profile.idle_ms),
      ...(permissions && { permissions }),
      ...(spec.definition !== undefined && { definition: spec.definition }),
      ...(spec.answer_ms !== undefined && {
        answer_ms: Math.min(spec.answer_ms, profile.answer_within_ms),
      }),
    },
  };
}

function inheritedFrom(spec: AgentSpec, profile: Profile) {
  const { model, system, description, alerts, output_schema, hooks, disallowed_tools, transcript_ms } = spec;
  const within = (names: string[] | undefined, allowed: string[] | undefined) =>
    names && allowed ? names.filter((each) => allowed.includes(each)) : names;
  const disallowed = union(disallowed_tools, profile.disallowed_tools);
  return {
    ...{ model, system, description, alerts, output_schema, hooks, disallowed_tools },
    // An absent chain is one without models: the profile must not fill it.
    fallback_models: spec.fallback_models ?? [],
    tools: spec.tools && toolsInBoth(spec.tools, profile.tools),
    skills: loadableSkills("resume", within(spec.skills, profile.skills), disallowed),
    transcript_ms: transcript_ms && Math.min(transcript_ms, profile.transcript_ms ?? transcript_ms),
    // All of it is inherited: what the model does not take is left out, and not refused.
    ...paceFor(model, {
      effort: leastEffort(spec.effort, profile.effort),
      task_budget: spec.task_budget && Math.min(spec.task_budget, profile.task_budget ?? spec.task_budget),
    }),
  };
}

/** Throws `invalid_input` if the parent allows nothing any more of the tools and skills that the old agent had by name. */
function requireToolsLeft(
  { agent_id, spec }: AgentRecord,
  { tools = [], skills = [] }: ReturnType<typeof inheritedFrom>,
  profile: Profile,
): void {
  const had = [...(spec.tools ?? []), ...(spec.skills ?? []).map((name) => `the skill ${name}`)];
  if (!spec.tools || had.length === 0 || tools.length > 0 || skills.length > 0) return;
  throw new SubagentError(
    "invalid_input",
    `resume refused, nothing was done: this parent allows none of the tools any more that "${agent_id}" had (${had.join(", ")}): allow one of them in its profile, or spawn a new agent.`,
    { field: "tools", requested: had, allowed: profile.tools },
  );
}

/** Returns the lower value of each limit. */
function atMost(limits: Limits, most: Limits): Limits {
  const least = (a?: number, b?: number) => (a === undefined || b === undefined ? (a ?? b) : Math.min(a, b));
  const max_total_tokens = least(limits.max_total_tokens, most.max_total_tokens);
  const max_cost_usd = least(limits.max_cost_usd, most.max_cost_usd);
  return {
    max_turns: Math.min(limits.max_turns, most.max_turns),
    max_tokens: Math.min(limits.max_tokens, most.max_tokens),
    max_duration_ms: Math.min(limits.max_duration_ms, most.max_duration_ms),
    ...(max_total_tokens !== undefined && { max_total_tokens }),
    ...(max_cost_usd !== undefined && { max_cost_usd }),
  };
}

/** Returns the layers without duplicates; undefined if there are none. */
function distinct<T>(layers: T[]): T[] | undefined {
  const seen = new Map(layers.map((layer) => [digestOf(layer), layer]));
  return nonEmpty([...seen.values()]);
}
