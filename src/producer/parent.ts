/**
 * A parent: the face of everything its sub-agents do for it.
 *
 * Owns: its profile, and which of its readers and tasks are open in this process. Its neighbours: the client owns the
 * connections, Redis owns the agents; another parent object with the same id sees and may do the same.
 *
 * 1. Every call is checked before anything is sent, and answers or rejects within a second; only `task`, `taskAll`, the
 *    waits and the iterators wait.
 * 2. After {@link Parent.stop} nothing of it waits any more. Its agents go on.
 */
import type { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { AgentView } from "../shared/protocol/agent.ts";
import type { AlertThresholds, Budgets, Effort, LimitsInput } from "../shared/protocol/limits.ts";
import type { PermissionRules } from "../shared/protocol/permissions.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import type { UsageTotals } from "../shared/protocol/usage.ts";
import type { WorkspaceFile } from "../shared/workspace-files.ts";
import {
  type AnswerReceipt,
  answer,
  type DestroyReceipt,
  destroyAgent,
  type FinishReceipt,
  finishAgent,
  listAgents,
  readFullText,
  readUsage,
  type SendReceipt,
  send,
  viewAgent,
  withAgent,
} from "./agents.ts";
import { type Client, createClient, internalsOf } from "./client.ts";
import { type EventOptions, type NumberedEvent, timelineOf, watchParent } from "./events.ts";
import { type Profile, profileOf } from "./inheritance.ts";
import type { MessageOptions, ProfileInput } from "./input.ts";
import { type ParentTool, type ParentToolName, parentTools } from "./model-tools.ts";
import type { ParentContext } from "./parent-context.ts";
import { createParentLease, type LeaseOptions, type ParentLease } from "./parent-lease.ts";
import { type NewReplies, newReplies, type RepliesOptions, readReplies } from "./read-replies.ts";
import { type ProfileReceipt, type ProfileView, readProfile, registerProfile } from "./registered-profile.ts";
import type { ReceivedEntry } from "./replies/parent-channel.ts";
import {
  listSchedules,
  pauseSchedule,
  resumeSchedule,
  type ScheduleInput,
  type ScheduleView,
  schedule,
  unschedule,
} from "./schedules.ts";
import { type SpawnReceipt, spawn } from "./spawn.ts";
import type { SpawnInput, TaskInput, TaskOptions, TypedReply } from "./spawn-input.ts";
import { type TaskHandle, taskAll, taskHandle } from "./task.ts";
import {
  type ResumeReceipt,
  readTranscript,
  resume,
  type Transcript,
  type TranscriptOptions,
} from "./transcript.ts";
import { type WaitOptions, waitAll, waitAny } from "./wait.ts";
import { type ParentWebhook, parentWebhook } from "./webhook.ts";
import { filesOf, readFileOf } from "./workspace-files.ts";

/** Who a parent is, what its sub-agents inherit unless a spawn narrows it, and over which client it speaks. */
export interface ParentOptions {
  /** 1 to 64 characters of `A-Za-z0-9._-`. */
  parentId: string;
  /** The parent's owner, default `default`. */
  tenant?: string | undefined;
  /** Required here, in the client or in each spawn. */
  model?: string | undefined;
  /** Asked in this order while the model cannot answer. */
  fallback_models?: string[] | undefined;
  /** Replaces the standard instructions. */
  system?: string | undefined;
  /** Exactly these; default: all of the worker's. Common names (`Read`, `Grep`, `Bash`) are understood. */
  tools?: string[] | undefined;
  /** Never these. */
  disallowed_tools?: string[] | undefined;
  /** Exactly these of the worker's skills; default: all. */
  skills?: string[] | undefined;
  /** Hooks of the worker that hold for these agents besides those that hold for all. */
  hooks?: string[] | undefined;
  /** What tools may do: `{ deny: ["bash(rm *)"], ask: ["write_file"] }`. */
  permissions?: PermissionRules | undefined;
  /** Narrow the operator's. */
  limits?: LimitsInput | undefined;
  alerts?: AlertThresholds | undefined;
  /** What each of its agents, and all together, may spend; narrow the operator's. At 80 % a run is told, at 100 % it reports what it has. */
  budgets?: Omit<Budgets, "tenant"> | undefined;
  /** Whether agents take further messages after a reply, default false. */
  keep_alive?: boolean | undefined;
  /** Idle time after which an agent ends (`idle`), default 600,000 ms, at most 24 h. */
  idle_ms?: number | undefined;
  /** How long the conversation of an ended agent stays readable after the ack of its end, at most 7 days; default: until the ack. */
  transcript_ms?: number | undefined;
  /** How thorough the models are to be, `low` to `max`; sent to those that take it. A spawn may ask for less. */
  effort?: Effort | undefined;
  /** Tokens that the model is told it has for a run, 20,000 at least, to pace itself by: advice, not a cap. */
  task_budget?: number | undefined;
  /** How long an agent's question waits for its answer before its default holds, ms; default 1 h, at most 24 h. */
  answer_within_ms?: number | undefined;
  /** Whether its agents follow when this process is gone; default: they go on, as do those of the API's and MCP's parents. */
  lease?: LeaseOptions | undefined;
  /** Shared; stays its owner's to stop. Without one the parent makes its own on `redisUrl` and `prefix`, and stops it. */
  client?: Client;
  /** Default `redis://127.0.0.1:6379`. */
  redisUrl?: string;
  /** Prefix of all keys, default `saq`. */
  prefix?: string;
}

/** See the module's header. Calls reject with a `SubagentError`; its `code` says why, its message what to do. */
export interface Parent {
  readonly parentId: string;
  readonly tenant: string;
  /** Makes an agent that waits for its first message. `invalid_input`, `unknown_price`, `conflict`, `quota_exceeded`. */
  spawn(input: SpawnInput): Promise<SpawnReceipt>;
  /**
   * Sends a message; a `message_id` makes the call repeatable. `files` stand in the agent's workspace, and its model sees
   * `images`, when it reads the message. `unknown_agent`, `agent_ended`, `conflict`, `inbox_full`, `log_full`.
   */
  send(agentId: string, text: string, options?: MessageOptions): Promise<SendReceipt>;
  /** The live agents, oldest first. */
  list(): Promise<AgentView[]>;
  /** One agent, also an ended one while its record is kept. `unknown_agent`. */
  get(agentId: string): Promise<AgentView>;
  /** Ends an agent at once, whatever it is doing. `unknown_agent`. */
  destroy(agentId: string): Promise<DestroyReceipt>;
  /**
   * Answers a question of an agent that waits, the oldest one unless it is named; the agent goes on with the last answer.
   * The same answer again to a question that is named is no mistake; without a name it would answer the next one.
   * `unknown_question`, `already_answered`, `log_full`, `agent_ended`, `unknown_agent`.
   */
  answer(agentId: string, text: string, options?: { question_id?: string }): Promise<AnswerReceipt>;
  /** Asks a run to report what it has, also one that waits for an answer. `unknown_agent`. */
  finish(agentId: string): Promise<FinishReceipt>;
  /**
   * Gives a prompt to a fresh agent and resolves with its reply, however the agent ended; the ack goes out with it. Aborting `signal`
   * destroys the agent and rejects with the signal's reason. A text is the prompt; `signal` and `onQuestion` may also
   * stand beside a prompt in the input. With a `request_key` the task is a durable promise: the same call by any process
   * finds the same agent, and its reply until 24 hours after its ack; later it begins anew. `started` of what it
   * returns has the agent's id at once. With an `output_schema` a reply that `succeeded` carries an `output` that fits it; a
   * zod schema also gives its type, and one whose refinements refuse what came makes the reply `partial`, `invalid_output`.
   */
  task<Schema extends z.ZodType>(
    input: TaskInput & TaskOptions & { output_schema: Schema },
    options?: TaskOptions,
  ): TaskHandle<TypedReply<z.output<Schema>>>;
  task(input: string | (TaskInput & TaskOptions), options?: TaskOptions): TaskHandle;
  /**
   * Runs many tasks, as many side by side as there is room for (at most 10), and resolves with their replies in order,
   * acked. All are checked before any begins. Aborting `signal` destroys those under way. Rejects with the first other
   * failure; replies that were in hand by then stand in its `details.replies`.
   */
  taskAll(inputs: readonly (string | TaskInput)[], options?: TaskOptions): Promise<Reply[]>;
  /**
   * Waits until one of these agents has ended its run, and resolves with that reply, acked. `timed_out` takes nothing;
   * `agent_ended`: the reply was acked before; `unknown_agent`.
   */
  waitAny(agentIds: readonly string[], options?: WaitOptions): Promise<Reply>;
  /** Waits for all of these agents: their replies in the order of the ids, acked together. Rejects like `waitAny`. */
  waitAll(agentIds: readonly string[], options?: WaitOptions): Promise<Reply[]>;
  /**
   * What has come for a model that is the parent: replies and messages as data for its next user message, to be acked
   * when that message is safe. `timeout_ms`: how long to wait for the first one, default 0. `invalid_input`.
   */
  newReplies(options?: WaitOptions): Promise<NewReplies>;
  /** Tools for a model that is the parent: all, or those named. They work until `stop`. `invalid_input` for other names. */
  tools(names?: readonly ParentToolName[]): ParentTool[];
  /**
   * Every unacked entry, oldest first, also those from before, then what comes: waits, and ends with `signal` or `stop`. With
   * `follow: false` it ends behind what is there now.
   */
  replies(options?: RepliesOptions): AsyncIterableIterator<ReceivedEntry>;
  /**
   * Progress of all agents: from now on, or with `after` from that number on (`"0"`: all kept events: 24 h, about 10,000; of
   * acked agents the newest 50), then new events as they come. A reader that was away or is slow misses nothing that is kept
   * but text deltas; at most some 1,000 events wait for it in this process. Reading rejects with `invalid_input`: `after` is
   * no number of an event.
   */
  events(options?: EventOptions): AsyncIterableIterator<NumberedEvent>;
  /**
   * What is kept of one agent's runs, oldest first; text deltas are not. As long as its record, after the ack of its end while it
   * is one of the newest 50. `unknown_agent`.
   */
  timeline(agentId: string): Promise<NumberedEvent[]>;
  /**
   * The regular files that an agent has left in its workspace, sorted by path, at most 10,000; also those of an ended one.
   * Empty where it has none on this machine. `unknown_agent`; `invalid_config` without `workspaceRoot` in the client.
   */
  files(agentId: string): Promise<WorkspaceFile[]>;
  /** One of these files, at most 64 MiB. `unknown_file`: nothing regular stands there; `invalid_input`: too large. */
  readFile(agentId: string, path: string): Promise<Buffer>;
  /**
   * What this parent's runs used, acked or not: whole days (UTC) from the one in which `since` lies, at most 90 days
   * back, which is the default. `invalid_input`: `since` is no point in time.
   */
  usage(options?: { since?: Date | string }): Promise<UsageTotals>;
  /**
   * Registers what this parent's agents inherit, through whichever door they are asked for; what `createParent` was given
   * narrows it for this object. The version goes up by one when the profile differs from the one that stood there. Agents that
   * live keep theirs. `invalid_input`.
   */
  register(profile: ProfileInput): Promise<ProfileReceipt>;
  /** What is registered; version 0: nothing ever was. */
  profile(): Promise<ProfileView>;
  /** Where replies, questions and messages are pushed, signed after Standard Webhooks; the API's processes push. */
  readonly webhook: ParentWebhook;
  /**
   * Everything an agent was told, said, called and got back, oldest first: while it lives, and after its end until the ack, or as
   * long as `transcript_ms` of its profile says. At most 500 entries a read; where there are more, `next` is the `after` of the
   * next one. `unknown_agent`, `unknown_transcript`.
   */
  transcript(agentId: string, options?: TranscriptOptions): Promise<Transcript>;
  /**
   * Goes on with the conversation of an agent that has ended: a new agent that begins with it, asked `text`. Its limits, cost and
   * workspace are its own; what it may do, and the budgets that bind it, are what the old one was given, narrowed by what the
   * parent's profile says now.
   * `unknown_agent`, `unknown_transcript`, `log_full`, `conflict` (it lives: send it a message), and as `spawn` rejects.
   */
  resume(agentId: string, text: string, options?: { request_key?: string }): Promise<ResumeReceipt>;
  /** The whole text of a reply whose summary was cut; undefined where it was not, or is no longer kept. */
  fullText(replyId: string): Promise<string | undefined>;
  /**
   * A task that comes due by itself, by `cron`, `every_ms` or once `at`; workers of the command line begin it, and its reply
   * comes into the channel. It takes what `task` takes, but for `files`, `images`, `request_key` and `traceparent`, and this
   * parent's options hold for it as for a task, but for the `lease`. Its agents have the name of the schedule unless it is given
   * one. The same `schedule_id` replaces; `at` may be a `Date`. What was missed runs once. `invalid_input`, also for an `at`
   * that is past.
   */
  schedule(input: ScheduleInput): Promise<ScheduleView>;
  /** The schedules by name. */
  schedules(): Promise<ScheduleView[]>;
  /** Until `resumeSchedule` it begins nothing, also of what has come due. Idempotent. `unknown_schedule`. */
  pauseSchedule(scheduleId: string): Promise<ScheduleView>;
  /** It comes due again, from now on. Idempotent. `unknown_schedule`. */
  resumeSchedule(scheduleId: string): Promise<ScheduleView>;
  /** Removes it, with what has come due and not begun; agents at work go on. `unknown_schedule`. */
  unschedule(scheduleId: string): Promise<{ status: "removed" }>;
  /** Ends its iterations; waiting tasks reject with `closed` and their agents go on. Stops a client of its own. Idempotent. */
  stop(): Promise<void>;
}

function taskOf(context: ParentContext): Parent["task"] {
  function task<Schema extends z.ZodType>(
    input: TaskInput & TaskOptions & { output_schema: Schema },
    options?: TaskOptions,
  ): TaskHandle<TypedReply<z.output<Schema>>>;
  function task(input: string | (TaskInput & TaskOptions), options?: TaskOptions): TaskHandle;
  function task(input: unknown, options?: TaskOptions): TaskHandle {
    return taskHandle(context, input, options);
  }
  return task;
}

const contexts = new WeakMap<Parent, ParentContext>();

/** What the calls of a parent made by {@link createParent} work with; for any other object `invalid_config` is thrown. */
export function contextOf(parent: Parent): ParentContext {
  const context = contexts.get(parent);
  if (context) return context;
  throw new SubagentError(
    "invalid_config",
    "This is no parent of this copy of subagent-queue: make it with createParent.",
  );
}

const DEFAULT_REDIS_URL = "redis://127.0.0.1:6379";

const stopReason = () =>
  new SubagentError("closed", "This parent was stopped; the reply stays in its channel.");

/** A parent. Throws `invalid_input`, `nested_spawn` (the identity of a sub-agent) or `invalid_config` (wrong URL). */
export function createParent(options: ParentOptions): Parent {
  const { client: shared, redisUrl = DEFAULT_REDIS_URL, prefix, ...rest } = { ...options };
  const client = shared ?? createClient({ redisUrl, ...(prefix !== undefined && { prefix }) });
  const { operator, open } = internalsOf(client);
  const profile = profileOf(rest, operator);
  const lease = leaseOf(profile);
  const ends = new Set<(reason: unknown) => void>();
  let stopped = false;
  const context: ParentContext = {
    profile,
    operator,
    async open() {
      if (stopped) throw new SubagentError("closed", "This parent was stopped: make a new one.");
      const opened = await open();
      await lease?.hold(opened);
      return opened;
    },
    onStop(end) {
      // What a call waits for may begin after its first commands, and the parent have been stopped meanwhile.
      if (stopped) end(stopReason());
      else ends.add(end);
      return () => void ends.delete(end);
    },
  };
  const made: Parent = {
    ...profile.parent,
    ...callsOf(context),
    async stop() {
      stopped = true;
      lease?.stop();
      for (const end of [...ends]) end(stopReason());
      if (!shared) await client.stop();
    },
  };
  contexts.set(made, context);
  return made;
}

function leaseOf({ parent, lease }: Profile): ParentLease | undefined {
  return lease && lease.onParentGone !== "keep" ? createParentLease(parent, lease.ms) : undefined;
}

/** Every call of a parent on its context. */
function callsOf(context: ParentContext): Omit<Parent, "parentId" | "tenant" | "stop"> {
  return {
    spawn: (input) => spawn(context, input),
    send: (agentId, text, extra) => send(context, agentId, text, extra),
    answer: (agentId, text, extra) => answer(context, agentId, text, extra),
    list: () => listAgents(context),
    get: (agentId) => withAgent(context, agentId, viewAgent),
    destroy: (agentId) => withAgent(context, agentId, destroyAgent),
    finish: (agentId) => withAgent(context, agentId, finishAgent),
    task: taskOf(context),
    taskAll: (inputs, extra) => taskAll(context, inputs, extra),
    waitAny: (agentIds, extra) => waitAny(context, agentIds, extra),
    waitAll: (agentIds, extra) => waitAll(context, agentIds, extra),
    newReplies: (extra) => newReplies(context, extra),
    replies: (extra) => readReplies(context, extra),
    events: (extra) => watchParent(context, extra),
    timeline: (agentId) => timelineOf(context, agentId),
    tools: (names) => parentTools(context, names),
    files: (agentId) => filesOf(context, agentId),
    readFile: (agentId, path) => readFileOf(context, agentId, path),
    usage: (extra) => readUsage(context, extra),
    transcript: (agentId, options) => readTranscript(context, agentId, options),
    resume: (agentId, text, extra) => resume(context, agentId, text, extra),
    register: (profile) => registerProfile(context, profile),
    profile: () => readProfile(context),
    webhook: parentWebhook(context),
    fullText: (replyId) => readFullText(context, replyId),
    schedule: (input) => schedule(context, input),
    schedules: () => listSchedules(context),
    pauseSchedule: (scheduleId) => pauseSchedule(context, scheduleId),
    resumeSchedule: (scheduleId) => resumeSchedule(context, scheduleId),
    unschedule: (scheduleId) => unschedule(context, scheduleId),
  };
}
