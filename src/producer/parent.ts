/**
 * A parent: the face of everything its sub-agents do for it.
 *
 * Owns: its profile, and which of its readers and tasks are open in this process. Its neighbours: the client owns the
 * connections, Redis owns the agents; another parent object with the same id sees and may do the same.
 *
 * 1. Every call is checked before anything is sent, and answers or rejects within a second; only `task` and the
 *    iterators wait.
 * 2. After {@link Parent.stop} nothing of it waits any more. Its agents go on.
 */
import type { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import type { AgentView } from "../shared/protocol/agent.ts";
import type { ProgressEvent } from "../shared/protocol/event.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import type { UsageTotals } from "../shared/protocol/usage.ts";
import type { AnswerReceipt } from "./answering.ts";
import { type Client, createClient } from "./client.ts";
import type { NewReplies } from "./forwarding.ts";
import type { DestroyReceipt, FinishReceipt, SendReceipt } from "./managing.ts";
import { managingCalls, type Room, runningCalls, speakingCalls, streamCalls } from "./parent-calls.ts";
import { type ProfileInput, profileOf } from "./profile.ts";
import type { ReceivedEntry } from "./received-entry.ts";
import type { SpawnInput, TaskInput } from "./spawn-arguments.ts";
import type { SpawnReceipt } from "./spawning.ts";
import type { AnswerQuestions } from "./task.ts";
import type { ParentToolName } from "./tool-inputs.ts";
import { type ParentTool, parentTools } from "./tools.ts";
import type { WaitOptions } from "./waiting.ts";
import type { WorkspaceFile } from "./workspace-files.ts";

/**
 * Who a parent is and what its sub-agents inherit. `parentId`: 1 to 64 characters of `A-Za-z0-9._-`; `tenant`: its
 * owner, default `default`; `model`: required here, in the client or in each spawn; `system`: replaces the standard
 * instructions; `tools`: exactly these (default: all of the worker's); `limits`: narrow the operator's; `alerts`:
 * thresholds; `keepAlive`: agents take further messages after a reply (default false); `idleMs`: idle time after which
 * an agent is destroyed (default 600,000 ms, at most 24 h); `answerWithinMs`: how long an agent's question waits for its
 * answer before its default holds (default 1 h, at most 24 h). `client` is shared and stays its owner's; without one the
 * parent makes its own on `redisUrl`, default `redis://127.0.0.1:6379`.
 */
export type ParentOptions = z.input<typeof ProfileInput> & { client?: Client; redisUrl?: string };

/** Ends an iteration when aborted. */
export interface IterationOptions {
  signal?: AbortSignal;
}

/** What a task may be given besides its prompt. */
export interface TaskOptions extends IterationOptions {
  /**
   * Answers what the sub-agent asks with `ask_parent` (an allowlist of tools must name it); without it, it cannot ask. What
   * it throws, the task rejects with.
   */
  onQuestion?: AnswerQuestions;
}

/** See the module's header. Calls reject with a `SubagentError`; its `code` says why, its message what to do. */
export interface Parent {
  readonly parentId: string;
  readonly tenant: string;
  /** Makes an agent that waits for its first message. `invalid_input`, `unknown_price`, `conflict`, `quota_exceeded`. */
  spawn(input: SpawnInput): Promise<SpawnReceipt>;
  /** Sends a message; a `message_id` makes the call repeatable. `unknown_agent`, `agent_ended`, `conflict`, `inbox_full`. */
  send(agentId: string, text: string, options?: { message_id?: string }): Promise<SendReceipt>;
  /** The live agents, oldest first. */
  list(): Promise<AgentView[]>;
  /** One agent, also an ended one while its record is kept. `unknown_agent`. */
  get(agentId: string): Promise<AgentView>;
  /** Ends an agent at once, whatever it is doing. `unknown_agent`. */
  destroy(agentId: string): Promise<DestroyReceipt>;
  /**
   * Answers a question of an agent that waits, the oldest one unless it is named; the agent goes on with the last answer.
   * The same answer again is no mistake. `unknown_question`, `already_answered`, `agent_ended`, `unknown_agent`.
   */
  answer(agentId: string, text: string, options?: { questionId?: string }): Promise<AnswerReceipt>;
  /** Asks a run to hand back what it has, also one that waits for an answer. `unknown_agent`. */
  finish(agentId: string): Promise<FinishReceipt>;
  /**
   * Gives a prompt to a fresh agent and resolves with its reply, acked, however the agent ended. Aborting `signal`
   * destroys the agent and rejects with the signal's reason.
   */
  task(input: TaskInput & TaskOptions): Promise<Reply>;
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
   * when that message is safe. `timeoutMs`: how long to wait for the first one, default 0.
   */
  newReplies(options?: WaitOptions): Promise<NewReplies>;
  /** Tools for a model that is the parent: all, or those named. They work until `stop`. `invalid_input` for other names. */
  tools(names?: readonly ParentToolName[]): ParentTool[];
  /** Every unacked entry, oldest first, also those from before, then what comes. Waits; ends with `signal` or `stop`. */
  replies(options?: IterationOptions): AsyncIterableIterator<ReceivedEntry>;
  /** Progress from now on. A hint: what is not taken in time is dropped, oldest first, beyond 1,000 events. */
  events(options?: IterationOptions): AsyncIterableIterator<ProgressEvent>;
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
  /** The whole text of a reply whose summary was cut; undefined where it was not, or is no longer kept. */
  fullText(replyId: string): Promise<string | undefined>;
  /** Ends its iterations; waiting tasks reject with `closed` and their agents go on. Stops a client of its own. Idempotent. */
  stop(): Promise<void>;
}

const DEFAULT_REDIS_URL = "redis://127.0.0.1:6379";

const stopReason = () =>
  new SubagentError("closed", "This parent was stopped; the reply stays in its channel.");

/** A parent. Throws `invalid_input`, `nested_spawn` (the identity of a sub-agent) or `invalid_config` (wrong URL). */
export function createParent(options: ParentOptions): Parent {
  const { client: shared, redisUrl = DEFAULT_REDIS_URL, ...rest } = options;
  const client = shared ?? createClient({ redisUrl });
  const profile = profileOf(rest, client.operator);
  const ends = new Set<(reason: unknown) => void>();
  let stopped = false;
  const room: Room = {
    profile,
    operator: client.operator,
    client() {
      if (stopped) throw new SubagentError("closed", "This parent was stopped: make a new one.");
      return client.open();
    },
    enter(end) {
      // What a call waits for may begin after its first questions, and the parent have been stopped meanwhile.
      if (stopped) end(stopReason());
      else ends.add(end);
      return () => void ends.delete(end);
    },
  };
  const managing = managingCalls(room);
  const { tell, ...speaking } = speakingCalls(room);
  const running = runningCalls(room);
  return {
    ...profile.parent,
    ...managing,
    ...speaking,
    ...streamCalls(room),
    waitAny: running.waitAny,
    waitAll: running.waitAll,
    taskAll: running.taskAll,
    task: async ({ signal, onQuestion, ...input }) =>
      (await running.runTask("task", input, { signal, onQuestion })).reply,
    tools: (names) => parentTools({ ...managing, ...running, tell }, names),
    async stop() {
      stopped = true;
      const reason = stopReason();
      for (const end of [...ends]) end(reason);
      if (!shared) await client.stop();
    },
  };
}
