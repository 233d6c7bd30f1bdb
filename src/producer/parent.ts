/**
 * A parent: the public interface to its sub-agents.
 *
 * Owns: its profile, and its open readers and tasks in this process. Its neighbours: the client owns the connections, Redis
 * owns the agents. Another parent object with the same id sees and may do the same.
 *
 * 1. Every call is checked before anything is sent, and answers or rejects within a second, one about schedules within a
 *    second after Redis' last answer and eleven in all; only `task`, `taskAll`, the waits and the iterators wait.
 * 2. After {@link Parent.stop} none of its calls waits any more. Its agents go on.
 */
import { z } from "zod";
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
import { type MessageOptions, objectOf, type ProfileInput, readOptions, Signal } from "./input.ts";
import { type NewReplies, newReplies } from "./model-replies.ts";
import { type ParentTool, type ParentToolName, parentTools } from "./model-tools.ts";
import type { ParentContext } from "./parent-context.ts";
import { createParentLease, type LeaseOptions, type ParentLease } from "./parent-lease.ts";
import { untilStop, whenOpened } from "./push-iterator.ts";
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
  type ResumeOptions,
  type ResumeReceipt,
  readTranscript,
  resume,
  type Transcript,
  type TranscriptOptions,
} from "./transcript.ts";
import { type WaitOptions, waitAll, waitAny } from "./wait.ts";
import { type ParentWebhook, parentWebhook } from "./webhook.ts";
import { filesOf, readFileOf } from "./workspace-files.ts";

/** Options of a parent: its identity, the profile that its sub-agents inherit unless a spawn narrows it, and its client. */
export interface ParentOptions {
  /** 1 to 64 characters of `A-Za-z0-9._-`, starting with a letter or digit. */
  parentId: string;
  /** The parent's owner, default `default`. */
  tenant?: string | undefined;
  /** The model; required here, in the client or in each spawn. */
  model?: string | undefined;
  /** Models called in this order while the model cannot answer. */
  fallback_models?: string[] | undefined;
  /** Replaces the standard instructions. */
  system?: string | undefined;
  /** The only tools allowed; default: all of the worker's. Common names (`Read`, `Grep`, `Bash`) are accepted. */
  tools?: string[] | undefined;
  /** Tools that are never allowed. */
  disallowed_tools?: string[] | undefined;
  /** The only skills of the worker to use; default: all. */
  skills?: string[] | undefined;
  /** Hooks of the worker for these agents, in addition to its hooks for all agents. */
  hooks?: string[] | undefined;
  /** Permission rules for tools: `{ deny: ["bash(rm *)"], ask: ["write_file"] }`. */
  permissions?: PermissionRules | undefined;
  /** Limits that narrow the operator's. */
  limits?: LimitsInput | undefined;
  alerts?: AlertThresholds | undefined;
  /**
   * Spending limits of each agent and of all agents together; they narrow the operator's. At 80 % a run is warned, at 100 %
   * it reports what it has.
   */
  budgets?: Omit<Budgets, "tenant"> | undefined;
  /** Whether agents take further messages after a reply, default false. */
  keep_alive?: boolean | undefined;
  /** Idle time after which an agent ends (`idle`), default 600,000 ms, at most 24 h. */
  idle_ms?: number | undefined;
  /** How long an ended agent's conversation is kept after the ack of its end, ms, at most 7 days; default: until the ack. */
  transcript_ms?: number | undefined;
  /** The effort of the models, `low` to `max`; sent to models that support it. A spawn may ask for less. */
  effort?: Effort | undefined;
  /** Number of tokens that the model is told to pace a run by, at least 20,000: advice, not a cap. */
  task_budget?: number | undefined;
  /** How long an agent's question waits for an answer before its default is used, ms; default 1 h, at most 24 h. */
  answer_within_ms?: number | undefined;
  /** Whether its agents end when this process is gone. Default: they go on, as agents of API and MCP parents do. */
  lease?: LeaseOptions | undefined;
  /** A shared client; its owner stops it. Without one the parent makes its own from `redisUrl` and `prefix`, and stops it. */
  client?: Client;
  /** Default `redis://127.0.0.1:6379`. */
  redisUrl?: string;
  /** Prefix of all keys, default `saq`. */
  prefix?: string;
}

/** See the module's header. Calls reject with a `SubagentError`: its `code` gives the cause, its message the remedy. */
export interface Parent {
  readonly parentId: string;
  readonly tenant: string;
  /**
   * Creates an agent that waits for its first message. `invalid_input`, `unknown_definition`, `unknown_price`, `conflict`,
   * `quota_exceeded`.
   */
  spawn(input: SpawnInput): Promise<SpawnReceipt>;
  /**
   * Sends a message; a `message_id` makes the call repeatable. When the agent reads the message, `files` are in its
   * workspace and its model sees `images`. `unknown_agent`, `agent_ended`, `conflict`, `inbox_full`, `log_full`.
   */
  send(agentId: string, text: string, options?: MessageOptions): Promise<SendReceipt>;
  /** Returns the live agents, oldest first. */
  list(): Promise<AgentView[]>;
  /** Returns one agent, also an ended one while its record is kept. `unknown_agent`. */
  get(agentId: string): Promise<AgentView>;
  /** Ends an agent at once, in every state. `unknown_agent`. */
  destroy(agentId: string): Promise<DestroyReceipt>;
  /**
   * Answers a question of a waiting agent, by default the oldest one. The agent goes on when its last question is answered.
   * Repeating the same answer to a named question is safe, also when the agent has ended, until the ack of its end; without
   * `question_id` a repeated call answers the next question.
   * `unknown_question`, `already_answered`, `log_full`, `agent_ended`, `unknown_agent`.
   */
  answer(agentId: string, text: string, options?: { question_id?: string }): Promise<AnswerReceipt>;
  /**
   * Asks a run to report what it has, even while its question is open. A run whose model has not answered yet ends without a
   * call. `unknown_agent`.
   */
  finish(agentId: string): Promise<FinishReceipt>;
  /**
   * Gives a prompt to a new agent and resolves with its reply, also if the agent failed; the ack follows. Aborting `signal`
   * destroys the agent and rejects with the signal's reason. A string is the prompt; the options may also be in the input
   * object. With a `request_key` the task is a durable promise: the same call by any process finds the same agent, and its
   * reply until 24 hours after the ack; later it begins a new task. `started` of the returned handle resolves with the
   * agent's id. With an `output_schema` a `succeeded` reply has an `output` that fits the schema, and so has one that reached a
   * cap if its last answer fits. A zod schema also parses and types `output`; if its refinements reject the output, the reply
   * has none, and instead of `succeeded` it is `partial` with `invalid_output`.
   */
  task<Schema extends z.ZodType>(
    input: TaskInput & TaskOptions & { output_schema: Schema },
    options?: TaskOptions,
  ): TaskHandle<TypedReply<z.output<Schema>>>;
  task(input: string | (TaskInput & TaskOptions), options?: TaskOptions): TaskHandle;
  /**
   * Runs many tasks, as many at once as the quota allows (at most 10), and resolves with their replies in order; acks follow.
   * It checks all tasks before any begins. Aborting `signal` destroys the agents of running tasks. Rejects with the first other
   * failure; its `details.replies` holds the replies received before it. A refusal of a task has its `details.index`, from 0.
   */
  taskAll(inputs: readonly (string | TaskInput)[], options?: TaskOptions): Promise<Reply[]>;
  /**
   * Waits until one of these agents has ended its run, and resolves with that reply, acked. `timed_out`: no reply was acked;
   * `agent_ended`: the reply was acked before; `unknown_agent`.
   */
  waitAny(agentIds: readonly string[], options?: WaitOptions): Promise<Reply>;
  /** Waits for all of these agents and resolves with a reply for each id, in their order, acked. Rejects like `waitAny`. */
  waitAll(agentIds: readonly string[], options?: WaitOptions): Promise<Reply[]>;
  /**
   * Returns the unacked entries for a parent that is a model: replies and messages as data for its next user message. Ack
   * them when that message is stored. `timeout_ms`: how long to wait for the first entry, default 0. `invalid_input`.
   */
  newReplies(options?: WaitOptions): Promise<NewReplies>;
  /** Returns tools for a parent that is a model: all, or the named ones. They work until `stop`. `invalid_input`: other names. */
  tools(names?: readonly ParentToolName[]): ParentTool[];
  /**
   * Iterates over every unacked entry, oldest first, then over new entries as they arrive, until `signal` or `stop`. With
   * `follow: false` it ends after the entries that are in the channel now.
   */
  replies(options?: RepliesOptions): AsyncIterableIterator<ReceivedEntry>;
  /**
   * Iterates over events of all agents: from now on, or after the number `after`, then over new events as they arrive.
   * `"0"`: all kept events (24 h, about 10,000; of acked agents only the newest, by default 50). A slow or returning reader
   * misses only text deltas and events no longer kept. This process buffers at most about 1,000 events for it. Reading rejects
   * with `invalid_input` if `after` is not an event number.
   */
  events(options?: EventOptions): AsyncIterableIterator<NumberedEvent>;
  /**
   * Returns the kept events of one agent's runs, oldest first, without text deltas. They are kept as long as the agent's
   * record; after the ack of its end, while it is one of the parent's newest, by default 50. `unknown_agent`.
   */
  timeline(agentId: string): Promise<NumberedEvent[]>;
  /**
   * Lists the regular files in an agent's workspace, sorted by path, at most 10,000; also for an ended agent. Empty if the
   * agent has no files on this machine. `unknown_agent`; `invalid_config` without `workspaceRoot` in the client; `rate_limited`
   * while too many files are open in this process.
   */
  files(agentId: string): Promise<WorkspaceFile[]>;
  /** Reads one of these files, at most 64 MiB. `unknown_file`: no regular file has this path; `invalid_input`: too large. */
  readFile(agentId: string, path: string): Promise<Buffer>;
  /**
   * Returns the usage of this parent's runs, acked or not. It counts whole days (UTC) from the day of `since` on, at most 90
   * days back, which is the default. `invalid_input`: `since` is not a valid time.
   */
  usage(options?: { since?: Date | string }): Promise<UsageTotals>;
  /**
   * Registers the profile that this parent's agents inherit, whichever interface spawns them. The options of `createParent`
   * narrow it for this object. The version goes up by one if the profile differs from the registered one. Live agents keep
   * the profile of their spawn. `invalid_input`.
   */
  register(profile: ProfileInput): Promise<ProfileReceipt>;
  /** Returns the registered profile; version 0: none was registered. */
  profile(): Promise<ProfileView>;
  /** The webhook for replies, questions and messages, signed as in Standard Webhooks; the API's processes push to it. */
  readonly webhook: ParentWebhook;
  /**
   * Returns an agent's conversation with all tool calls and results, oldest first: while it lives, and after its end until
   * the ack or for `transcript_ms` of its profile. At most 500 entries a read; if there are more, `next` is the `after` of
   * the next read. `unknown_agent`, `unknown_transcript`.
   */
  transcript(agentId: string, options?: TranscriptOptions): Promise<Transcript>;
  /**
   * Continues the conversation of an ended agent in a new agent, with `text` as its next message. The new agent has its own
   * limits, cost and workspace. Its permissions and budgets are those of the old agent, narrowed by the parent's present
   * profile.
   * `unknown_agent`, `unknown_transcript`, `log_full`, `conflict` (it lives: send it a message), and as `spawn` rejects.
   */
  resume(agentId: string, text: string, options?: ResumeOptions): Promise<ResumeReceipt>;
  /** Returns the full text of a reply whose summary was cut; undefined if it was not cut or is no longer kept. */
  fullText(replyId: string): Promise<string | undefined>;
  /**
   * Schedules a task by `cron`, `every_ms` or once `at` (ISO 8601 or `Date`). Workers of the command line begin it, and its
   * reply arrives in the channel. It takes the options of `task` except `files`, `images`, `request_key` and `traceparent`.
   * This parent's options apply to it as to a task, except the `lease`. Its agents have the name of the schedule by default.
   * The same `schedule_id` replaces the schedule. Missed times run once. `invalid_input`, also if `at` is past or `cron` never
   * comes due.
   */
  schedule(input: ScheduleInput): Promise<ScheduleView>;
  /** Returns the schedules, sorted by name. */
  schedules(): Promise<ScheduleView[]>;
  /** Pauses a schedule until `resumeSchedule`, including due tasks that have not begun. Idempotent. `unknown_schedule`. */
  pauseSchedule(scheduleId: string): Promise<ScheduleView>;
  /** Resumes a schedule: it comes due again from now on. Idempotent. `unknown_schedule`. */
  resumeSchedule(scheduleId: string): Promise<ScheduleView>;
  /** Removes a schedule and its due tasks that have not begun; running agents go on. `unknown_schedule`. */
  unschedule(scheduleId: string): Promise<{ status: "removed" }>;
  /** Ends its iterators; waiting tasks reject with `closed` and their agents go on. Stops its own client. Idempotent. */
  stop(): Promise<void>;
}

/** Options of a reader: `follow` (default true) goes on with new entries; `signal` ends the iterator. */
export interface RepliesOptions {
  signal?: AbortSignal;
  follow?: boolean;
}

const RepliesInput = z.strictObject({ signal: Signal, follow: z.boolean().default(true) });

async function openReader(
  { profile: { parent }, open, onStop }: ParentContext,
  options: RepliesOptions = {},
): Promise<AsyncIterableIterator<ReceivedEntry>> {
  const { signal, follow } = readOptions(RepliesInput, options, "replies");
  const { channels } = await open();
  if (!follow) return untilStop(channels.readPresent(parent, signal), onStop);
  let forgetStop = () => {};
  const stream = channels.read(parent, { signal, onEnd: () => forgetStop() });
  forgetStop = onStop(stream.end);
  return stream;
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

/** Returns the context of a parent made by {@link createParent}. Throws `invalid_config` for any other object. */
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

/** Creates a parent. Throws `invalid_input`, `nested_spawn` (the id of a sub-agent) or `invalid_config` (wrong URL). */
export function createParent(options: ParentOptions): Parent {
  return parentOf(options, "createParent");
}

/**
 * Like {@link createParent}, for options that come from elsewhere: refusals of the profile call it `what`. `defaultModel` replaces
 * the operator's.
 */
export function parentOf(options: ParentOptions, what: string, defaultModel?: string): Parent {
  const { client: shared, redisUrl = DEFAULT_REDIS_URL, prefix, ...rest } = { ...objectOf(options, what) };
  const client = shared ?? createClient({ redisUrl, ...(prefix !== undefined && { prefix }) });
  const { operator: own, open } = internalsOf(client);
  const operator = defaultModel === undefined ? own : { ...own, model: defaultModel };
  const profile = profileOf(rest, operator, what);
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
      // The wait of a call may begin after its first commands, when the parent is already stopped.
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

/** Returns all calls of a parent, bound to its context. */
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
    replies: (extra) => whenOpened(openReader(context, extra)),
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
