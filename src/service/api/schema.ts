/**
 * The shapes of HTTP bodies, by their names in the OpenAPI document. Most schemas are the library's own. Receipts have only a
 * type in the library; the compiler checks that their schemas here match it.
 */
import { z } from "zod";
import type { AnswerReceipt, DestroyReceipt, FinishReceipt, SendReceipt } from "../../producer/agents.ts";
import { MessageInput, ProfileInput } from "../../producer/input.ts";
import type { ProfileReceipt, ProfileView } from "../../producer/registered-profile.ts";
import type { SpawnReceipt } from "../../producer/spawn.ts";
import { SpawnInput, TaskInput } from "../../producer/spawn-input.ts";
import type { Transcript as AgentTranscript, ResumeReceipt } from "../../producer/transcript.ts";
import { WebhookInput } from "../../producer/webhook.ts";
import {
  AgentStatus,
  type AgentView,
  EndedReason,
  InForce,
  ProviderWait,
  VisibleStatus,
} from "../../shared/protocol/agent.ts";
import { Usage } from "../../shared/protocol/content.ts";
import { RequestKey } from "../../shared/protocol/ids.ts";
import { AlertThresholds, Limits, LimitsInput } from "../../shared/protocol/limits.ts";
import { MessageText, OpenQuestion } from "../../shared/protocol/message.ts";
import {
  Alert,
  ChannelEntry,
  Interim,
  ProgressEvent,
  Question,
  Reply,
  ReplyBody,
  ReplyStatus,
  StopReason,
} from "../../shared/protocol/reply.ts";
import { TranscriptEntry } from "../../shared/protocol/transcript.ts";
import type { WebhookReceipt, WebhookView } from "../../shared/redis/webhooks.ts";
import type { WorkspaceFile } from "../../shared/workspace-files.ts";
import { Problem } from "./problem.ts";

const agent_id = z.string();

/** One schema for each field of a type, and no other: a missing field is a compile error. */
type FieldsOf<View> = { [Name in keyof View]-?: z.ZodType<View[Name] | undefined> };

/** An agent as its parent sees it. */
export const Agent: z.ZodType<AgentView> = z.object({
  agent_id,
  name: z.string(),
  status: VisibleStatus,
  created_at: z.string(),
  ended_reason: EndedReason.optional(),
  description: z.string().optional(),
  definition: z.string().optional(),
  run: z.int().min(0),
  limits: Limits,
  model: z.string(),
  keep_alive: z.boolean(),
  progress: ReplyBody.optional(),
  provider_wait: ProviderWait.extend({ since: z.string(), next_try_at: z.string() }).optional(),
  questions: z.array(OpenQuestion.extend({ answer_by: z.string() })).optional(),
} satisfies FieldsOf<AgentView>);

/** An event; the last event of each step has a number. */
const NumberedEvent = z.union(
  ProgressEvent.options.map((event) =>
    event.extend({ number: z.string().optional(), at: z.string().optional() }),
  ),
);

/** The kept events of an agent's runs. */
export const Timeline = z.object({ events: z.array(NumberedEvent) });

/**
 * A parent of the key's tenant. `live`: number of its live agents by status; `unacked`: number of entries in its channel;
 * `today`: usage of its ended runs since midnight (UTC).
 */
export const ParentView = z.object({
  parent_id: z.string(),
  active_at: z.string(),
  live: z.object({ running: z.int(), queued: z.int(), waiting: z.int(), idle: z.int() }),
  unacked: z.int(),
  today: z.object({ turns: z.int(), tokens: z.int(), cost_usd: z.number() }),
});
/** See {@link ParentView}. */
export type ParentView = z.infer<typeof ParentView>;

/**
 * A page of parents; `unreadable`: others on it, whose data in Redis cannot be read, with the reason; `cursor`: beginning of
 * the next page, absent on the last one. `waits`: what every run waits for: a `resume`, because an operator has paused the
 * installation at `since` (ISO 8601) for `reason`; or a `worker`, because a parent on the page has queued agents and no
 * worker is live.
 */
export const ParentList = z.object({
  parents: z.array(ParentView),
  waits: z
    .object({
      for: z.enum(["resume", "worker"]),
      since: z.string().optional(),
      reason: z.string().optional(),
    })
    .optional(),
  unreadable: z.array(z.object({ parent_id: z.string(), problem: z.string() })).optional(),
  cursor: z.string().optional(),
});

/** See {@link ParentList}. */
export type ParentList = z.infer<typeof ParentList>;

/** The live agents of a parent. */
export const AgentList = z.object({ sub_agents: z.array(Agent) });

const spawned = z.object({
  agent_id,
  status: z.literal("created"),
  known: z.boolean(),
  name: z.string(),
  created_at: z.string(),
  model: z.string(),
  limits: Limits,
  unknown_tools: z.array(z.string()),
  in_force: InForce,
} satisfies FieldsOf<SpawnReceipt>);

/** The receipt of a spawn. */
export const Spawned: z.ZodType<SpawnReceipt> = spawned;

/** The input of a resume. */
export const ResumeInput = z.strictObject({ text: MessageText, request_key: RequestKey.optional() });

/** The receipt of a resume. */
export const Resumed: z.ZodType<ResumeReceipt> = spawned.extend({ resumes: z.string(), run: z.int() });

/** The conversation of an agent. */
export const Transcript: z.ZodType<AgentTranscript> = z.object({
  agent_id,
  entries: z.array(TranscriptEntry),
  next: z.int().optional().describe("Set when there is more: `after` of the next read."),
} satisfies FieldsOf<AgentTranscript>);

/** A task without a reply yet: the same request with this `request_key` gets the reply, and so do readers of the channel. */
export const TaskBegun = spawned.extend({ request_key: z.string() });

/** Maximum wait of a request, s. */
const MOST_WAIT_S = 300;

/** Returns the schema of a number in a query: a text without a digit is no number, although `Number("")` is 0. */
export function queryNumber(number: z.ZodCoercedNumber) {
  return z.preprocess((text) => (/\d/.test(String(text)) ? text : Number.NaN), number);
}

/** Wait of a request for a reply, s. */
export const WaitSeconds = queryNumber(z.coerce.number().min(0).max(MOST_WAIT_S))
  .default(0)
  .describe(`Seconds to wait for a reply, at most ${MOST_WAIT_S}; default 0.`);

/** The receipt of a send. */
export const Sent: z.ZodType<SendReceipt> = z.object({
  status: z.enum(["queued", "delivered"]),
  agent_id,
  run: z.int(),
  message_id: z.string(),
});

/** An answer to a question; without `question_id` to the oldest one. */
export const AnswerInput = z.strictObject({
  text: MessageText,
  question_id: z.string().min(1).max(512).optional(),
});

/** The receipt of an answer. */
export const Answered: z.ZodType<AnswerReceipt> = z.object({
  status: z.literal("answered"),
  agent_id,
  question_id: z.string(),
  agent_status: AgentStatus,
});

/** The receipt of a destroy. */
export const Destroyed: z.ZodType<DestroyReceipt> = z.object({
  status: z.enum(["destroyed", "already_ended"]),
  agent_id,
  ended_reason: EndedReason,
});

/** The receipt of a finish. */
export const Finishing: z.ZodType<FinishReceipt> = z.discriminatedUnion("status", [
  z.object({ status: z.literal("finishing"), agent_id, run: z.int() }),
  z.object({ status: z.literal("idle"), agent_id }),
  z.object({ status: z.literal("already_ended"), agent_id, ended_reason: EndedReason }),
]);

/** The full text of an agent's last run. */
export const FullText = z.object({ agent_id, run: z.int(), text: z.string() });

/** A file in a workspace. */
const File: z.ZodType<WorkspaceFile> = z.object({
  path: z.string(),
  size_bytes: z.int(),
  modified_at: z.string(),
} satisfies FieldsOf<WorkspaceFile>);

/** The files of a workspace. */
export const FileList = z.object({ files: z.array(File) });

/** Unacked entries of a parent's channel, oldest first; `cursor`: beginning of the next read. */
export const ReplyPage = z.object({ replies: z.array(ChannelEntry), cursor: z.string() });

/** Maximum entries that one request reads or acks. */
const MOST_ENTRIES = 100;

/** Returns the schema of a page's size, in items called `what`. */
export function pageLimit(what: string) {
  return z.coerce
    .number()
    .int()
    .min(1)
    .max(MOST_ENTRIES)
    .default(20)
    .describe(`Most ${what}, at most ${MOST_ENTRIES}; default 20.`);
}

/** The ids of the replies to ack. */
export const AckInput = z.strictObject({
  // A reply id may hold a uid, a message number and a provider's call id of up to 256 characters.
  reply_ids: z.array(z.string().min(1).max(512)).min(1).max(MOST_ENTRIES),
});

/**
 * The outcome of each ack: `acked` by this request; `already` acked earlier or gone; `not_reached`: not among the searched
 * entries, so the client must ack older entries first.
 */
export const Acked = z.object({
  acked: z.array(z.string()),
  already: z.array(z.string()),
  not_reached: z.array(z.string()).optional(),
});

const profile = z.object({
  parent_id: z.string(),
  version: z.int().min(0),
  profile: ProfileInput,
  registered_at: z.string().optional(),
} satisfies FieldsOf<ProfileView>);

/** The registered profile of a parent. */
export const Profile: z.ZodType<ProfileView> = profile;

/** The receipt of a registration. */
export const ProfileRegistered: z.ZodType<ProfileReceipt> = profile.extend({ changed: z.boolean() });

const webhook = z.object({
  url: z.string(),
  status: z.enum(["active", "failing", "disabled"]),
  created_at: z.string(),
  last_problem: z.string().optional(),
  next_try_at: z.string().optional(),
} satisfies FieldsOf<WebhookView>);

/** The webhook of a parent, and the state of its pushes. */
export const Webhook: z.ZodType<WebhookView> = webhook;

/** A webhook that was just set: `secret` signs its requests and is not shown again. */
export const WebhookSet: z.ZodType<WebhookReceipt> = webhook.extend({ secret: z.string() });

/** All named shapes by their names in the document, as input or output. */
export const SHAPES = {
  input: {
    SpawnInput,
    TaskInput,
    ProfileInput,
    WebhookInput,
    MessageInput,
    ResumeInput,
    AnswerInput,
    AckInput,
    LimitsInput,
    AlertThresholds,
  },
  output: {
    ParentView,
    ParentList,
    Agent,
    AgentList,
    Timeline,
    Spawned,
    TaskBegun,
    Resumed,
    Transcript,
    TranscriptEntry,
    Sent,
    Answered,
    Destroyed,
    Finishing,
    FullText,
    File,
    FileList,
    ReplyPage,
    Acked,
    Reply,
    Interim,
    Question,
    ChannelEntry,
    ReplyStatus,
    StopReason,
    Alert,
    Usage,
    ReplyBody,
    Limits,
    NumberedEvent,
    Problem,
    Profile,
    ProfileRegistered,
    Webhook,
    WebhookSet,
  },
} as const;
