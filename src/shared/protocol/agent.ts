/** An agent's states and the record that carries them; the stored shapes of its specification and its snapshot. */
import { z } from "zod";
import { AgentId, AgentName, ParentId, TenantId, Traceparent, Uid } from "./ids.ts";
import { AlertThresholds, Budgets, Effort, Limits } from "./limits.ts";
import { OpenQuestion } from "./message.ts";
import { OutputSchema } from "./output.ts";
import { PermissionRules } from "./permissions.ts";
import { NO_SUMMARY, Reply, type ReplyBody, RunProgress } from "./reply.ts";

/** Version of every stored or sent payload of this release. A worker releases records of a newer one. */
export const PAYLOAD_VERSION = 1;

/** Where an agent stands: `idle` waits for a message, `waiting` for an answer; `ended` is terminal. */
export const AgentStatus = z.enum(["idle", "queued", "running", "waiting", "ended"]);
/** See {@link AgentStatus}. */
export type AgentStatus = z.infer<typeof AgentStatus>;

/** Where an agent stands for its parent. `waiting_for_tools`: queued, and no worker that took it up has all tools that it names. */
export const SeenStatus = z.enum([...AgentStatus.options, "waiting_for_tools"]);
/** See {@link SeenStatus}. */
export type SeenStatus = z.infer<typeof SeenStatus>;

/** Why an agent ended. */
export const EndedReason = z.enum(["completed", "idle", "destroyed", "failed"]);
/** See {@link EndedReason}. */
export type EndedReason = z.infer<typeof EndedReason>;

/**
 * What an agent is made of, snapshotted at spawn and never changed: `tools` is the exact allowlist, absent = every
 * tool of the worker except the spawning ones; `system` replaces the standard instructions; `idle_ms` is the idle
 * time after which it is destroyed; `keep_alive` lets it take further messages after a reply; `answer_ms` is how long a
 * question to its parent waits, absent = it cannot ask; `budgets` bind its calls; `traceparent` is the span
 * whose caller spawned it. `definition`: the agent definition it was made from, and
 * `profile_version` the version of the parent's registered profile, both already worked into the rest. `disallowed_tools`: never
 * these; `skills`: exactly these of the worker's, absent = all; `permissions`: layers of rules, of which every one must permit
 * a call; `hooks`: hooks of the worker that hold for it besides those for all agents, without one of which no tool begins;
 * `fallback_models`: asked in this order while `model` cannot answer;
 * `output_schema`: what the final answer of each run must fit; `transcript_ms`: how long its conversation stays readable after
 * the ack of its end, absent = until then; `effort`, `task_budget`: sent to models that take them; `attached`: files or images came with the spawn.
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
});
/** See {@link AgentSpec}. */
export type AgentSpec = z.infer<typeof AgentSpec>;

/** What an agent was given besides its model and limits: the part of its specification that a receipt echoes. */
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
/** Specifications that were read last, by their text; at most 2 Mi characters. */
const specs = new Map<string, AgentSpec>();

/**
 * A specification as a record holds it. Most agents of a parent have the same one: equal texts are read once, and what was
 * read is frozen, since they share it.
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

/** `value`, which cannot be changed any more, nor anything in it. */
function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

/**
 * What the record keeps of the reply of its run beside `progress` and `summary`, from the end of the run until the next
 * one begins. `entry_id`: where the entry stood in the reply channel.
 */
const KeptReply = z.object({
  entry_id: z.string(),
  at: z.string(),
  message_ids: z.string().default(""),
  undelivered: json(z.array(z.string())).optional(),
  ...Reply.pick({ reply_id: true, kind: true, status: true, stop_reason: true, agent_status: true }).shape,
});

/** Why a run waits for its provider: the provider's host, and what its failure or its limit is called. */
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
  /** Fencing token: raised by every claim and by every authority that settles, never lowered but by a Redis that forgets. */
  epoch: count,
  /** Number of the current or last run; 0 before the first message. */
  run: count,
  /** Number of the newest wake. */
  wake: count,
  deadline: count,
  inbox_read: count,
  /** How many bytes of the log its last holder knew of: all but those of the results that a turn under way has committed. */
  log_bytes: count.default(0),
  /** Running time of the current run that is already accounted for, ms. */
  running_ms: count.default(0),
  /** Provider failures since the run last advanced. */
  attempts: count.default(0),
  /** How often in a row the run has broken off in its worker before it advanced. */
  breaks: count.default(0),
  /** Workers in a row that crashed with it before it advanced. */
  crashes_without_progress: count.default(0),
  worker: z.string().optional(),
  /** Custom tools that a worker must offer to claim it, separated by blanks. */
  needs_tools: z.string().optional(),
  /** What becomes of it when its parent's lease has lapsed; absent: nothing. */
  on_parent_gone: z.enum(["finish", "destroy"]).optional(),
  /** Since when a queued run waits for a worker that has the tools it names. */
  tools_since: count.optional(),
  /** A released run is claimed no earlier. */
  not_before: count.optional(),
  provider_wait: json(ProviderWait).optional(),
  /** Since when its provider has failed the run without that it advanced. */
  provider_wait_since: count.optional(),
  /** Whether the parent wants an end. */
  finish: z
    .string()
    .optional()
    .transform((word) => word === "1"),
  progress: json(RunProgress).optional(),
  /** Last text of the run, cut to its bound; absent where the progress names the message that says it. */
  summary: z.string().optional(),
  /**
   * The purchase that may be under way, without the uid in front of its id; empty: none. With `@<entries>` behind it: it begins
   * once the log has so many, and is over when its message stands there.
   */
  begun: z.string().optional(),
  reply: json(KeptReply).optional(),
  /** What a waiting agent waits for, oldest first; until its deadline. */
  questions: json(z.array(OpenQuestion)).optional(),
  /** `1`: its caller named the request key. */
  promised: z.string().optional(),
  /** Token of the ack of the agent's end. Where it stands, only what is short stays as it was; see {@link readKept}. */
  acked_by: z.string().optional(),
});

/**
 * The values of the JSON list that stands in the fields `kept1`, `kept2` … of an acked agent's record, in their order: names in
 * each record would be a quarter of what an agent may leave behind. The list ends with the last value that is there, so what few
 * agents have stands last. Of its reply are `entry_id` to `kind` and `undelivered`: `ending` is what its `reply_id` has behind the uid,
 * and a `kind` that is not there is `reply`.
 */
export const KEPT_FIELDS = [
  ...["model", "max_turns", "max_tokens", "max_duration_ms", "idle_ms", "progress", "summary"],
  ...["entry_id", "ending", "reply_status", "stop_reason", "message_ids"],
  ...["kind", "keep_alive", "description", "definition", "undelivered", "max_total_tokens", "max_cost_usd"],
] as const;

/**
 * The fields of a record, unchecked, of which `ack.lua` kept only `fields`, for the end of its agent was acked. What only a
 * worker or a resumed agent would need is gone.
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
 * The record of an agent; `progress` is what its run has come to, once it has committed a turn. `said`: the message of the log
 * that its summary is the text of, which the record alone does not tell.
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
  status: SeenStatus;
  created_at: string;
  ended_reason?: EndedReason;
  description?: string;
  /** The agent definition it was made from. */
  definition?: string;
  /** The run that is going on, or the last one; 0 before the first message. */
  run: number;
  limits: Limits;
  model: string;
  keep_alive: boolean;
  /** Counters and last text of the run, once it has committed a step. */
  progress?: ReplyBody;
  /** What the provider of a queued run says, since when, and when it is asked again. */
  provider_wait?: ProviderWait & { since: string; next_try_at: string };
  /** The open questions of an agent that waits, oldest first; `answer_by`: when their defaults hold. */
  questions?: (OpenQuestion & { answer_by: string })[];
}

/** A record as its parent may see it. */
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
    // Of its own: the specification is shared and frozen.
    limits: { ...spec.limits },
    model: spec.model,
    keep_alive: spec.keep_alive,
    ...(progress && { progress }),
    ...(status === "queued" && providerWaitOf(record)),
    ...(status === "waiting" &&
      questions && { questions: questions.map((question) => ({ ...question, answer_by })) }),
  };
}

function providerWaitOf({ provider_wait, provider_wait_since = 0, not_before = 0 }: AgentRecord) {
  if (!provider_wait) return undefined;
  const [since, next_try_at] = [provider_wait_since, not_before].map(isoTime);
  return since && next_try_at ? { provider_wait: { ...provider_wait, since, next_try_at } } : undefined;
}

const NO_TIME = new Date(0).toISOString();

/** A time that was stored, as ISO 8601; what can be no time is told as the beginning of 1970, and stops no reader. */
export function isoTime(epochMs: number): string {
  const time = new Date(epochMs);
  return Number.isNaN(time.getTime()) ? NO_TIME : time.toISOString();
}

/** The end of an agent whose idle time is over, by whichever process finds it. */
export const IDLE_EXPIRY = {
  authority: "sweeper",
  target: "ended",
  ended_reason: "idle",
  status: "cancelled",
  stop_reason: "idle",
} as const;
