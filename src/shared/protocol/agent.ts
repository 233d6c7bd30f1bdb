/** An agent's states and the record that carries them; the stored shapes of its specification and its snapshot. */
import { z } from "zod";
import { AgentId, AgentName, ParentId, TenantId, Uid } from "./ids.ts";
import { AlertThresholds, Limits } from "./limits.ts";
import { OpenQuestion } from "./question.ts";
import { ReplyBody } from "./reply.ts";

/** Version of every stored or sent payload of this release. A worker releases records of a newer one. */
export const PAYLOAD_VERSION = 1;

/** Where an agent stands: `idle` waits for a message, `waiting` for an answer; `ended` is terminal. */
export const AgentStatus = z.enum(["idle", "queued", "running", "waiting", "ended"]);
/** See {@link AgentStatus}. */
export type AgentStatus = z.infer<typeof AgentStatus>;

/** Why an agent ended. */
export const EndedReason = z.enum(["completed", "idle", "destroyed", "failed"]);
/** See {@link EndedReason}. */
export type EndedReason = z.infer<typeof EndedReason>;

/**
 * What an agent is made of, snapshotted at spawn and never changed: `tools` is the exact allowlist, absent = every
 * tool of the worker except the spawning ones; `system` replaces the standard instructions; `idle_ms` is the idle
 * time after which it is destroyed; `keep_alive` lets it take further messages after a reply; `answer_ms` is how long a
 * question to its parent waits, absent = it cannot ask.
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
});
/** See {@link AgentSpec}. */
export type AgentSpec = z.infer<typeof AgentSpec>;

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

/** A specification as a record holds it. */
export const AgentSpecJson = json(AgentSpec);

/** The record of an agent as Redis holds it: a hash of strings. Times are epoch ms of Redis' own clock. */
export const AgentRecord = z.object({
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
  /** Running time of the current run that is already accounted for, ms. */
  running_ms: count.default(0),
  /** Provider failures since the last committed step. */
  retries: count.default(0),
  barren_deaths: count.default(0),
  worker: z.string().optional(),
  finish: z.literal("1").optional(),
  progress: json(ReplyBody).optional(),
  /** What a waiting agent waits for, oldest first; until its deadline. */
  questions: json(z.array(OpenQuestion)).optional(),
});
/** See {@link AgentRecord}. */
export type AgentRecord = z.infer<typeof AgentRecord>;

/** An agent as its parent sees it. Times are ISO 8601. */
export interface AgentView {
  agent_id: string;
  name: string;
  status: AgentStatus;
  created_at: string;
  ended_reason?: EndedReason;
  description?: string;
  /** The run that is going on, or the last one; 0 before the first message. */
  run: number;
  limits: Limits;
  model: string;
  keep_alive: boolean;
  /** Counters and last text of the run, once it has committed a step. */
  progress?: ReplyBody;
  /** The open questions of an agent that waits, oldest first; `answer_by`: when their defaults hold. */
  questions?: (OpenQuestion & { answer_by: string })[];
}

/** A record as its parent may see it. */
export function viewOf(record: AgentRecord): AgentView {
  const { agent_id, name, status, ended_reason, run, spec, progress, questions } = record;
  const answer_by = new Date(record.deadline).toISOString();
  return {
    agent_id,
    name,
    status,
    created_at: new Date(record.created_at).toISOString(),
    ...(ended_reason && { ended_reason }),
    ...(spec.description !== undefined && { description: spec.description }),
    run,
    limits: spec.limits,
    model: spec.model,
    keep_alive: spec.keep_alive,
    ...(progress && { progress }),
    ...(status === "waiting" &&
      questions && { questions: questions.map((question) => ({ ...question, answer_by })) }),
  };
}
