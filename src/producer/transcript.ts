/**
 * The conversation of an agent as its parent reads it, and its continuation by a new agent. A resumed agent is a new agent:
 * its log begins with the old agent's entries, its run numbers follow the old ones, and its limits and cost begin at zero.
 */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { AgentRecord, AgentSpec } from "../shared/protocol/agent.ts";
import { RequestKey } from "../shared/protocol/ids.ts";
import { type Limits, leastEffort, TASK_LIMITS } from "../shared/protocol/limits.ts";
import { LOG_MAX_BYTES } from "../shared/protocol/log.ts";
import { MessageText } from "../shared/protocol/message.ts";
import {
  pageOf,
  TRANSCRIPT_PAGE,
  type TranscriptEntry,
  transcriptOf,
  withinBytes,
} from "../shared/protocol/transcript.ts";
import { logFull, withAgent } from "./agents.ts";
import { baseLimits, nonEmpty, type Profile } from "./inheritance.ts";
import { digestOf, objectOf, readInput, readOptions } from "./input.ts";
import type { ParentContext } from "./parent-context.ts";
import { type SpawnReceipt, spawnAgent, unknownTranscript } from "./spawn.ts";
import { type PreparedSpawn, prepareSpawn } from "./spawn-input.ts";

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

const ResumeInput = z.strictObject({ text: MessageText, request_key: RequestKey.optional() });

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

/** Spawns an agent that continues the conversation of an ended one; see `Parent.resume`. */
export async function resume(
  context: ParentContext,
  agentId: unknown,
  text: string,
  options: { request_key?: string } = {},
): Promise<ResumeReceipt> {
  const input = readInput(ResumeInput, { text, ...objectOf(options, "resume") }, "resume");
  return withAgent(context, agentId, async (call, agent) => {
    const record = await call.read(() => call.client.store.record(agent.address));
    if (!record) throw unknownTranscript(agent.agentId);
    if (record.status !== "ended")
      throw new SubagentError(
        "conflict",
        `Sub-agent "${agent.agentId}" has not ended: send it a message instead.`,
      );
    // The log of an ended agent no longer changes, so its size is still the same when it is copied.
    if (record.log_bytes + Buffer.byteLength(input.text) >= LOG_MAX_BYTES)
      throw logFull(agent.agentId, record.log_bytes, "spawn a new one and tell it what it needs to know");
    const { profile } = context;
    const { request_key: requestKey } = input;
    const { receipt } = await spawnAgent(call, {
      repeatable: requestKey === undefined ? undefined : { requestKey, digest: resumeDigest(record, input) },
      withProfile: (registered) =>
        prepareResumed(record, input, { ...context, profile: profile.withProfile(registered) }),
    });
    return { ...receipt, resumes: agent.agentId, run: record.run + 1 };
  });
}

function resumeDigest({ uid }: AgentRecord, { text }: { text: string }): string {
  return digestOf({ kind: "resume", uid, text });
}

/** Prepares the spawn of a resumed agent: the old agent's settings, narrowed by the present profile. */
function prepareResumed(
  record: AgentRecord,
  { text, request_key }: z.output<typeof ResumeInput>,
  { profile, operator }: Pick<ParentContext, "profile" | "operator">,
): PreparedSpawn {
  const { spec, name, uid, agent_id: agentId, log_bytes: logBytes, run } = record;
  const input = {
    name,
    prompt: text,
    ...inheritedFrom(spec, profile),
    limits: atMost(spec.limits, baseLimits(TASK_LIMITS, operator, profile.limits)),
    request_key,
  };
  const options = { answersTask: spec.answer_ms !== undefined, budgets: spec.budgets };
  const prepared = prepareSpawn("task", input, { profile, operator }, options);
  const permissions = distinct([...(prepared.spec.permissions ?? []), ...(spec.permissions ?? [])]);
  return {
    ...prepared,
    digest: resumeDigest(record, { text }),
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
  const given = {
    ...{ model, system, description, alerts, output_schema, hooks, disallowed_tools },
    fallback_models: spec.fallback_models,
    tools: within(spec.tools, profile.tools),
    skills: within(spec.skills, profile.skills),
    transcript_ms: transcript_ms && Math.min(transcript_ms, profile.transcript_ms ?? transcript_ms),
    effort: leastEffort(spec.effort, profile.effort),
    task_budget: spec.task_budget && Math.min(spec.task_budget, profile.task_budget ?? spec.task_budget),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
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
