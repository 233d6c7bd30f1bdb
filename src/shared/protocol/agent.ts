/** States, record and view of an agent, and the stored form of its specification. */
import { z } from "zod";
import { AgentId, AgentName, ParentId, TenantId, Traceparent, Uid } from "./ids.ts";
import { AlertThresholds, Budgets, Effort, Limits } from "./limits.ts";
import { OpenQuestion } from "./message.ts";
import { OutputSchema } from "./output.ts";
import { PermissionRules } from "./permissions.ts";
import { NO_SUMMARY, Reply, type ReplyBody, RunProgress } from "./reply.ts";

/** Version of every stored or sent payload of this release. A worker releases records of a newer one. */
export const PAYLOAD_VERSION = 1;

/** State of an agent: `idle` waits for a message, `waiting` for an answer; `ended` is terminal. */
export const AgentStatus = z.enum(["idle", "queued", "running", "waiting", "ended"]);
/** See {@link AgentStatus}. */
export type AgentStatus = z.infer<typeof AgentStatus>;

/** State of an agent for its parent. `waiting_for_tools`: queued, and no worker that took its wake has all tools that it names. */
export const VisibleStatus = z.enum([...AgentStatus.options, "waiting_for_tools"]);
/** See {@link VisibleStatus}. */
export type VisibleStatus = z.infer<typeof VisibleStatus>;

/** Reason why an agent ended. */
export const EndedReason = z.enum(["completed", "idle", "destroyed", "failed"]);
/** See {@link EndedReason}. */
export type EndedReason = z.infer<typeof EndedReason>;

/**
 * Specification of an agent, fixed at spawn. `tools`: the exact allowlist, absent = every tool of the worker except the
 * spawning ones; `system`: replaces the standard instructions; `idle_ms`: idle time after which the agent ends (`idle`);
 * `keep_alive`: it takes further messages after a reply; `answer_ms`: time that a question to its parent waits, absent = it
 * cannot ask; `budgets`: bind its calls; `traceparent`: the span whose caller spawned it. `definition`: the agent definition
 * it was made from; `profile_version`: version of the parent's registered profile; both are already merged into the rest.
 * `disallowed_tools`: never these; `skills`: exactly these of the worker's, absent = all; `permissions`: layers of rules,
 * each must permit a call; `hooks`: hooks of the worker besides those for all agents; if one is missing, no tool begins;
 * `fallback_models`: asked in this order while `model` cannot answer; `output_schema`: schema of each run's final answer;
 * `transcript_ms`: time that its conversation stays readable after the ack of its end, absent = until then; `effort`,
 * `task_budget`: sent to models that take them; `attached`: files or images came with the spawn; `unknown_tools`: tools that
 * the caller named, but neither the parent's list nor a worker has: its replies name them.
 */
export const AgentSpec = z.object({
  v: z.literal(PAYLOAD_VERSION),
  model: z.string().min(1).max(128),
  system: z.string().optional(),
  description: z.string().optional(),
  tools: z.array(z.string()).optional(),
  limits: Limits,
  alerts: AlertThresholds.optional(),
  keep_alive: z.boolean(),
  idle_ms: z.int().min(1),
  answer_ms: z.int().min(1).optional(),
  budgets: Budgets.optional(),
  output_schema: OutputSchema.optional(),
  traceparent: Traceparent.optional().catch(undefined),
  definition: z.string().optional(),
  profile_version: z.int().min(1).optional(),
  disallowed_tools: z.array(z.string()).optional(),
  skills: z.array(z.string()).optional(),
  permissions: z.array(PermissionRules).optional(),
  hooks: z.array(z.string()).optional(),
  fallback_models: z.array(z.string().min(1).max(128)).optional(),
  transcript_ms: z.int().min(1).optional(),
  effort: Effort.optional(),
  task_budget: z.int().min(1).optional(),
  attached: z.boolean().optional(),
  unknown_tools: z.array(z.string()).optional(),
});
/** See {@link AgentSpec}. */
export type AgentSpec = z.infer<typeof AgentSpec>;

/** Settings of an agent besides its model and limits: the part of its specification that a receipt echoes. */
export const InForce = AgentSpec.pick({
  definition: true,
  profile_version: true,
  tools: true,
  disallowed_tools: true,
  skills: true,
  hooks: true,
  permissions: true,
  fallback_models: true,
  transcript_ms: true,
  effort: true,
  task_budget: true,
});
/** See {@link InForce}. */
export type InForce = z.infer<typeof InForce>;

const count = z.coerce.number().int().min(0);
const json = <T extends z.ZodType>(schema: T) =>
  z
    .string()
    .transform((text, context): unknown => {
      try {
        return JSON.parse(text);
      } catch {
        context.addIssue({ code: "custom", message: "not JSON" });
        return z.NEVER;
      }
    })
    .pipe(schema);

const specJson = json(AgentSpec);
const MOST_SPECS = 32;
const LONGEST_SPEC = 64 * 1024;
/** Specifications that were parsed last, by their text; at most 2 Mi characters. */
const specs = new Map<string, AgentSpec>();

/**
 * A specification as a record holds it. Most agents of a parent have the same one, so equal texts are parsed once. The
 * result is frozen, because they share it.
 */
export const AgentSpecJson = z.string().transform((text, context): AgentSpec => {
  const known = specs.get(text);
  if (known) return known;
  const { data, error } = specJson.safeParse(text);
  for (const { message, path } of error?.issues ?? [])
    context.addIssue({ code: "custom", message, path: [...path] });
  if (!data) return z.NEVER;
  if (text.length > LONGEST_SPEC) return data;
  specs.set(text, frozen(data));
  const [oldest] = specs.keys();
  if (specs.size > MOST_SPECS && oldest !== undefined) specs.delete(oldest);
  return data;
});

/** Freezes `value` and everything in it. */
function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

/**
 * Parts of a run's reply that the record keeps beside `progress` and `summary`, from the end of the run until the next one
 * begins. `entry_id`: id of its entry in the reply channel.
 */
const KeptReply = z.object({
  entry_id: z.string(),
  at: z.string(),
  message_ids: z.string().default(""),
  undelivered: json(z.array(z.string())).optional(),
  ...Reply.pick({ reply_id: true, kind: true, status: true, stop_reason: true, agent_status: true }).shape,
});

/** Reason why a run waits for its provider: the provider's host, and the name of its failure or its limit. */
export const ProviderWait = z.object({ provider: z.string(), reason: z.string() });
/** See {@link ProviderWait}. */
export type ProviderWait = z.infer<typeof ProviderWait>;

/** The fields of a record as Redis holds them: a hash of strings. Times are epoch ms of Redis' own clock. */
export const RecordFields = z.object({
  v: count,
  uid: Uid,
  tenant: TenantId,
  parent_id: ParentId,
  agent_id: AgentId,
  name: AgentName,
  spec: AgentSpecJson,
  status: AgentStatus,
  ended_reason: EndedReason.optional(),
  created_at: count,
  ended_at: count.optional(),
  /** Fencing token: every claim and every authority that settles raises it. Only a Redis that loses data lowers it. */
  epoch: count,
  /** Number of the current or last run; 0 before the first message. */
  run: count,
  /** Number of the newest wake. */
  wake: count,
  deadline: count,
  inbox_read: count,
  /** Bytes of the log that its last holder knew of: all but the results that a turn under way has committed. */
  log_bytes: count.default(0),
  /** Running time of the current run that is already accounted for, ms. */
  running_ms: count.default(0),
  /** Failures of the provider, or errors in a worker, since the run last advanced. */
  attempts: count.default(0),
  /** Number of times in a row that the run broke off in its worker before it advanced. */
  breaks: count.default(0),
  /** Number of workers in a row that crashed with it before it advanced. */
  crashes_without_progress: count.default(0),
  worker: z.string().optional(),
  /** Custom tools, skills and hooks that a worker must offer to claim it, separated by blanks. */
  needs_tools: z.string().optional(),
  /** Action when its parent's lease has expired; absent: none. */
  on_parent_gone: z.enum(["finish", "destroy"]).optional(),
  /** Time since which a queued run waits for a worker with the tools it names. */
  tools_since: count.optional(),
  /** Earliest time at which a released run may be claimed. */
  not_before: count.optional(),
  provider_wait: json(ProviderWait).optional(),
  /** Time since which its provider has failed the run without progress. */
  provider_wait_since: count.optional(),
  /** True if the parent wants an end. */
  finish: z
    .string()
    .optional()
    .transform((word) => word === "1"),
  progress: json(RunProgress).optional(),
  /** Last text of the run, cut to its limit; absent if the progress names the message that contains it. */
  summary: z.string().optional(),
  /**
   * Id of the purchase that may be under way, without the uid at its beginning; empty: none. With a suffix `@<entries>`, it
   * begins when the log has that many entries, and is over when the log has its message.
   */
  begun: z.string().optional(),
  reply: json(KeptReply).optional(),
  /** Id of the entry in the reply channel that says that the agent has ended; absent once it is acked. */
  end_entry: z.string().optional(),
  /** Questions of a waiting agent, oldest first; open until its deadline. */
  questions: json(z.array(OpenQuestion)).optional(),
  /** `1`: its caller named the request key. */
  promised: z.string().optional(),
  /** Token of the ack of the agent's end. If it is set, only short fields are as before; see {@link readKept}. */
  acked_by: z.string().optional(),
});

/**
 * Names of the values in the JSON list that the fields `kept1`, `kept2` … of an acked agent's record hold, in order. Names
 * in each record would take a quarter of the space that an agent may leave behind. The list ends with the last present
 * value, so rare values come last. `entry_id` to `kind` and `undelivered` belong to its reply: `ending` is the part of its
 * `reply_id` after the uid, and an absent `kind` means `reply`.
 */
export const KEPT_FIELDS = [
  ...["model", "max_turns", "max_tokens", "max_duration_ms", "idle_ms", "progress", "summary"],
  ...["entry_id", "ending", "reply_status", "stop_reason", "message_ids"],
  ...["kind", "keep_alive", "description", "definition", "undelivered", "max_total_tokens", "max_cost_usd"],
] as const;

/**
 * Returns the fields of a record, unchecked, of which `ack.lua` kept only `fields` when the end of its agent was acked. Data
 * that only a worker or a resumed agent needs is gone.
 */
export function readKept(
  { uid, tenant, parentId }: { uid: string; tenant: string; parentId: string },
  fields: Readonly<Record<string, string>>,
): Record<string, unknown> {
  let json = "";
  for (let n = 1; fields[`kept${n}`] !== undefined; n += 1) json += fields[`kept${n}`];
  const values = z.array(z.unknown()).parse(JSON.parse(json));
  const kept: Partial<Record<(typeof KEPT_FIELDS)[number], unknown>> = Object.fromEntries(
    KEPT_FIELDS.map((name, i) => [name, values[i] ?? undefined]),
  );
  const { max_turns, max_tokens, max_duration_ms, max_total_tokens, max_cost_usd, progress, summary } = kept;
  const limits = { max_turns, max_tokens, max_duration_ms, max_total_tokens, max_cost_usd };
  const { model, keep_alive, idle_ms, description, definition } = kept;
  const spec = {
    v: Number(fields.v),
    model,
    limits,
    keep_alive: keep_alive === 1,
    idle_ms,
    description,
    definition,
  };
  const { entry_id, ending, kind, reply_status: status, stop_reason, message_ids, undelivered } = kept;
  const said = {
    entry_id,
    at: fields.ended_at,
    reply_id: `${uid}.${ending}`,
    kind: kind ?? "reply",
    status,
    stop_reason,
    message_ids,
  };
  const reply = { ...said, agent_status: "ended", undelivered: undelivered && JSON.stringify(undelivered) };
  return {
    ...fields,
    ...{ uid, tenant, parent_id: parentId, epoch: 0, deadline: 0, inbox_read: 0 },
    ...{ summary, spec: JSON.stringify(spec) },
    ...(progress !== undefined && { progress: JSON.stringify(progress) }),
    ...(entry_id !== undefined && { reply: JSON.stringify(reply) }),
  };
}

/**
 * The record of an agent. `progress`: progress of its run, after the first committed turn. `said`: number of the log message
 * whose text is its summary, if the record does not hold that text.
 */
export const AgentRecord = RecordFields.transform(({ progress: stored, summary, ...fields }) => {
  if (!stored) return fields;
  const { said, ...counters } = stored;
  const progress: ReplyBody = { summary: summary ?? NO_SUMMARY, ...counters };
  return { progress, ...(summary === undefined && said > 0 && { said }), ...fields };
});
/** See {@link AgentRecord}. */
export interface AgentRecord extends Omit<z.infer<typeof RecordFields>, "progress" | "summary"> {
  progress?: ReplyBody;
  said?: number;
}

/** An agent as its parent sees it. Times are ISO 8601. */
export interface AgentView {
  agent_id: string;
  name: string;
  status: VisibleStatus;
  created_at: string;
  ended_reason?: EndedReason;
  description?: string;
  /** The agent definition it was made from. */
  definition?: string;
  /** Number of the current or last run; 0 before the first message. */
  run: number;
  limits: Limits;
  model: string;
  keep_alive: boolean;
  /** Counters and last text of the run, after its first committed step. */
  progress?: ReplyBody;
  /** Reason why a queued run waits for its provider; since when it has waited without an advance; time of its next try. */
  provider_wait?: ProviderWait & { since: string; next_try_at: string };
  /** Open questions of an agent that waits, oldest first; `answer_by`: time from which their defaults hold. */
  questions?: (OpenQuestion & { answer_by: string })[];
}

/** Returns the view of a record for its parent. */
export function viewOf(record: AgentRecord): AgentView {
  const { agent_id, name, status, ended_reason, run, spec, progress, questions } = record;
  const answer_by = isoTime(record.deadline);
  return {
    agent_id,
    name,
    status: status === "queued" && record.tools_since !== undefined ? "waiting_for_tools" : status,
    created_at: isoTime(record.created_at),
    ...(ended_reason && { ended_reason }),
    ...(spec.description !== undefined && { description: spec.description }),
    ...(spec.definition !== undefined && { definition: spec.definition }),
    run,
    // A copy, because the specification is shared and frozen.
    limits: { ...spec.limits },
    model: spec.model,
    keep_alive: spec.keep_alive,
    ...(progress && { progress }),
    ...(status === "queued" && providerWaitOf(record)),
    ...(status === "waiting" &&
      questions && { questions: questions.map((question) => ({ ...question, answer_by })) }),
  };
}

function providerWaitOf({ provider_wait, provider_wait_since = 0, not_before }: AgentRecord) {
  // Without a time it waits for a worker: it was called early, has asked its parent since, or its worker has crashed.
  if (!provider_wait || not_before === undefined) return undefined;
  const [since, next_try_at] = [provider_wait_since, not_before].map(isoTime);
  return since && next_try_at ? { provider_wait: { ...provider_wait, since, next_try_at } } : undefined;
}

const NO_TIME = new Date(0).toISOString();

/** Returns a stored time as ISO 8601; an invalid one as the beginning of 1970, so that it stops no reader. */
export function isoTime(epochMs: number): string {
  const time = new Date(epochMs);
  return Number.isNaN(time.getTime()) ? NO_TIME : time.toISOString();
}

/** Ending of an agent whose idle time is over; the same for every process that finds it. */
export const IDLE_EXPIRY = {
  authority: "sweeper",
  target: "ended",
  ended_reason: "idle",
  status: "cancelled",
  stop_reason: "idle",
} as const;
