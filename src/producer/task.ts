/**
 * The blocking task: spawns with the first message, waits and acks the reply; also for many tasks at once.
 *
 * 1. The reply is reserved before the agent exists, so no reader of this client sees it first.
 * 2. After the agent exists, a loss of Redis makes the outcome unknown: a call with the same request key finds the agent,
 *    and its reply until a day after the ack.
 * 3. If the caller answers questions, no reader of this client sees the task's questions. If an answer fails for good, the
 *    wait ends, the question stays in the channel and names the agent, and the agent goes on. Questions that are
 *    unanswered when the reply arrives are acked with it.
 * 4. An aborted task leaves no agent and no entry behind, unless Redis is unavailable. Then the agent ends at its idle time,
 *    and the next reader of the channel acks the entry.
 * 5. Of many tasks, as many run at once as the parent's quota allows. They begin in their order, and the replies have the
 *    same order. After a quota refusal the spawn is retried when an agent may have ended: at a ring of the doorbell or at
 *    the slow tick.
 * 6. After the first refusal no further task begins. Running agents go on and their replies stay in the channel; the error's
 *    `details.replies` has the replies received so far.
 * 7. A task that waits for a worker longer than its caller allows ends like an aborted one, with `no_worker`.
 */

import { z } from "zod";
import { type ErrorCode, messageOf, SubagentError } from "../shared/errors.ts";
import { newUid } from "../shared/protocol/ids.ts";
import { agentOf, FIRST_RUN, type ParentAddress } from "../shared/protocol/keys.ts";
import { MAX_LIVE_AGENTS } from "../shared/protocol/limits.ts";
import { MessageText } from "../shared/protocol/message.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import { onAbort, StopSignal } from "../shared/stop-signal.ts";
import { answerQuestion, destroyAgent } from "./agents.ts";
import type { ClientResources } from "./client-resources.ts";
import { eachInput, readInput, refusalAt } from "./input.ts";
import { onCancel, type ParentContext, withCall } from "./parent-context.ts";
import { registeredProfile } from "./registered-profile.ts";
import type { FinalEntry, QuestionEntry, Reservation, TakeQuestion } from "./replies/parent-channel.ts";
import { requireAllowed, type Spawned, type SpawnReceipt, spawnAgent } from "./spawn.ts";
import {
  type AnswerQuestions,
  type CheckedSpawn,
  checkSpawn,
  mergeTaskOptions,
  splitTaskInput,
  type TaskOptions,
  withJsonSchema,
} from "./spawn-input.ts";
import { listenToDoorbell } from "./subscriber.ts";
import { asUndestroyed, isNoWorker, type OnWait, type TaskWait, watchTask } from "./task-wait-reasons.ts";

const MAX_TASKS = 10_000;
/** Delay between two attempts of an answer while Redis is unavailable. */
const RETRY_MS = 1_000;
/** Maximum wait for the end of an aborted task: twice the maximum time of a call. */
const END_SEEN_WITHIN_MS = 1_600;
const TOO_LATE: readonly ErrorCode[] = ["already_answered", "unknown_question", "agent_ended"];
const AnswerInput = z.object({ text: MessageText });
const Tasks = z.array(z.unknown()).min(1, "give at least one task").max(MAX_TASKS);

/** Callbacks of a task: its agent was spawned; the reason for which it waits changed; its agent was destroyed. They must not throw. */
interface TaskListener {
  started(receipt: SpawnReceipt): void;
  waits: OnWait;
  destroyed?(): void;
}

/** A running task: a promise of its reply. */
export interface TaskHandle<R = Reply> extends Promise<R> {
  /** The receipt of the spawn with the agent's id, long before the reply. Rejects as the task does if the spawn failed. */
  readonly started: Promise<SpawnReceipt>;
  /** The reason for which it waits now: no live worker, an operator's pause, tools or the provider; undefined: none. */
  readonly waits: TaskWait | undefined;
}

/** Runs one task and resolves with its reply, whose ack follows; see `Parent.task`. `agent`: with the limits of a spawn. */
export async function task(
  context: ParentContext,
  kind: "task" | "agent",
  input: unknown,
  options: TaskOptions = {},
  listener?: TaskListener,
): Promise<Reply> {
  const { input: plain, typed } = withJsonSchema(input, "task");
  const { input: taskInput, ...beside } = splitTaskInput(plain);
  const wanted = mergeTaskOptions(beside, options);
  const checked = checkSpawn(kind, taskInput, context, { answersTask: wanted.onQuestion !== undefined });
  return typed(await runTask(context, checked, wanted, listener));
}

/** Runs one task and returns its handle at once; see `Parent.task`. */
export function taskHandle(context: ParentContext, input: unknown, options?: TaskOptions): TaskHandle {
  let started: TaskListener["started"] = () => {};
  let refuse: (reason: unknown) => void = () => {};
  const receipt = new Promise<SpawnReceipt>((resolve, reject) => {
    started = resolve;
    refuse = reject;
  });
  // The reply rejects with the same reason, so an ignored `started` must not be an unhandled rejection.
  receipt.catch(() => {});
  const handle: Pick<TaskHandle, "started" | "waits"> = { started: receipt, waits: undefined };
  const waits: OnWait = (wait) => Object.assign(reply, { waits: wait });
  const reply = task(context, "task", input, options, { started, waits }).catch((reason: unknown) => {
    refuse(reason);
    throw reason;
  });
  return Object.assign(reply, handle);
}

/** Runs many tasks and resolves with their replies, whose acks follow; see `Parent.taskAll`. */
export async function taskAll(
  context: ParentContext,
  inputs: readonly unknown[],
  options: TaskOptions = {},
): Promise<Reply[]> {
  const wanted = mergeTaskOptions({}, options, "taskAll");
  const answersTask = wanted.onQuestion !== undefined;
  const read = Array.isArray(inputs) ? eachInput(inputs, (input) => withJsonSchema(input, "taskAll")) : [];
  const tasks = Array.isArray(inputs) ? read.map(({ input }) => input) : inputs;
  const checked = eachInput(readInput(Tasks, tasks, "taskAll"), (task) => {
    const input = typeof task === "string" ? { prompt: task } : task;
    return checkSpawn("task", input, context, { answersTask });
  });
  // Read first, so that the profile refuses a task before any task has begun.
  const registered = await registeredProfile(context);
  for (const [at, each] of checked.entries()) {
    try {
      await requireAllowed(context, each, registered);
    } catch (error) {
      throw refusalAt(at, error);
    }
  }
  const replies = await runBatch(context, checked, wanted);
  return Promise.all(replies.map((reply, at) => read[at]?.typed(reply) ?? reply));
}

/** One running task. */
interface OngoingTask {
  readonly context: ParentContext;
  readonly client: ClientResources;
  readonly onQuestion: AnswerQuestions | undefined;
  /** Stops when the task has ended, with or without success. */
  readonly over: StopSignal;
  /** Ends the wait with a reason; the first one counts. */
  cancel(reason: unknown): void;
}

/** Runs a checked task. Rejects like spawn and send, and with the signal's reason. */
async function runTask(
  context: ParentContext,
  checked: CheckedSpawn,
  options: TaskOptions,
  listener?: Partial<TaskListener>,
): Promise<Reply> {
  const { signal, onQuestion } = options;
  const client = await context.open();
  const { parent } = context.profile;
  const [uid, over] = [newUid(), new StopSignal()];
  let cancelled: { reason: unknown } | undefined;
  const cancel = (reason: unknown) => {
    cancelled ??= { reason };
    reservation.cancel(reason);
  };
  const questions = takerOfQuestions({ context, client, onQuestion, over, cancel });
  let reservation = client.channels.reserve(parent, uid, questions?.take);
  const forget = onCancel(context, signal, cancel);
  let spawned: Spawned | undefined;
  let [isReserved, acked]: [boolean, FinalEntry | false] = [true, false];
  try {
    const cancelledBefore = cancelled;
    if (cancelledBefore) throw cancelledBefore.reason;
    spawned = await withCall(context, (call) => spawnAgent(call, checked, uid));
    listener?.started?.(spawned.receipt);
    const { known } = spawned.receipt;
    if (known) {
      reservation.release(false);
      reservation = client.channels.reserve(parent, spawned.address.uid, questions?.take);
      if (cancelled) reservation.cancel(cancelled.reason);
    }
    watchTask(client, spawned.address, options, { tellHandle: listener?.waits, cancel, over });
    const spawnedAtMs = Date.parse(spawned.receipt.created_at);
    const entry = await reservation.wait(FIRST_RUN, known ? "even_if_acked" : { spawnedAtMs });
    client.inBackground(ackLater(client, parent, entry, reservation));
    isReserved = false;
    return entry.entry;
  } catch (error) {
    if (!spawned || !(signal?.aborted || isNoWorker(error))) throw error;
    const end = await destroyQuietly(client, spawned);
    acked = end.acked;
    if (end.isDestroyed) listener?.destroyed?.();
    throw end.isDestroyed ? error : asUndestroyed(error, spawned.receipt.agent_id);
  } finally {
    forget();
    over.stop();
    if (questions && (acked || !isReserved)) client.inBackground(questions.ackOpen());
    if (isReserved) reservation.release(acked);
  }
}

/** Acks the reply after the caller has it; the reservation lasts until the ack is answered. */
async function ackLater(
  { channels }: ClientResources,
  parent: ParentAddress,
  entry: FinalEntry,
  reservation: Reservation,
): Promise<void> {
  await new Promise(setImmediate);
  const isAcked = await channels.tryAck(parent, entry);
  reservation.release(isAcked && entry);
}

/** The questions of one task. */
interface TaskQuestions {
  take: TakeQuestion;
  /** Acks the unanswered questions, after the reply has made answers needless. */
  ackOpen(): Promise<void>;
}

/** Passes each question to the caller and the answer to the agent; a permanent failure ends the task's wait. */
function takerOfQuestions(run: OngoingTask): TaskQuestions | undefined {
  const { client, context, onQuestion, over, cancel } = run;
  if (!onQuestion) return undefined;
  const open = new Set<QuestionEntry>();
  const ack = async (entry: QuestionEntry) =>
    open.delete(entry) && client.channels.tryAck(context.profile.parent, entry);
  const answer = async (entry: QuestionEntry) => {
    open.add(entry);
    const { text } = readInput(AnswerInput, { text: await onQuestion(entry.entry) }, "answer");
    while (!(await tryAnswer(context, entry, text))) {
      if (over.isStopped) return;
      await client.clock.sleep(RETRY_MS, over.signal);
    }
    await ack(entry);
  };
  return {
    take: (entry) => void answer(entry).catch(cancel),
    ackOpen: async () => void (await Promise.all([...open].map(ack))),
  };
}

/** Sends the answer; false if Redis was unavailable and the caller must send it again. */
async function tryAnswer(context: ParentContext, { uid, entry }: QuestionEntry, text: string) {
  const { agent_id, question_id } = entry;
  const agent = { address: agentOf(context.profile.parent, uid), agentId: agent_id };
  try {
    await withCall(context, (call) => answerQuestion(call, agent, { text, question_id }));
    return true;
  } catch (error) {
    if (!(error instanceof SubagentError)) throw error;
    // The default answer came first, or the agent has ended: its reply has the result.
    if (TOO_LATE.includes(error.code)) return true;
    if (error.retryable) return false;
    throw error;
  }
}

/** Destroys an aborted task's agent and acks the entry of its end (`acked`), each within the time of a call. */
async function destroyQuietly(
  client: ClientResources,
  { address, receipt: { agent_id } }: Spawned,
): Promise<{ isDestroyed: boolean; acked: FinalEntry | false }> {
  const reservation = client.channels.reserve(address, address.uid);
  const timer = client.clock.timeout(END_SEEN_WITHIN_MS, () => {
    reservation.cancel(new SubagentError("closed", "The end of the aborted task was not seen in time."));
  });
  let [isDestroyed, acked]: [boolean, FinalEntry | false] = [false, false];
  try {
    await client.call((call) =>
      destroyAgent({ ...call, client, parent: address }, { address, agentId: agent_id }),
    );
    isDestroyed = true;
    const end = await reservation.wait(FIRST_RUN, "only_if_unacked");
    acked = (await client.channels.tryAck(address, end)) && end;
  } catch (error) {
    client.logger.warn(
      { agent_id, problem: messageOf(error) },
      "an aborted task's sub-agent was not destroyed",
    );
  }
  timer.cancel();
  reservation.release(acked);
  return { isDestroyed, acked };
}

/** The running tasks of one `taskAll` call. */
interface Batch {
  /** Runs a task as soon as the quota allows. After the batch was refused, rejects and begins nothing. */
  run(task: CheckedSpawn): Promise<Reply>;
  /** Ends all waits with a reason; the first one counts. */
  refuse(reason: unknown): void;
  readonly refused: { reason: unknown } | undefined;
  /** How many agents were begun, without those that the refusal has destroyed. */
  begun(): number;
  close(): void;
}

/** Runs the tasks of a batch. Rejects with the signal's reason or the first refusal other than `quota_exceeded`. */
async function runBatch(
  context: ParentContext,
  checked: readonly CheckedSpawn[],
  options: TaskOptions,
): Promise<Reply[]> {
  const batch = openBatch(context, await context.open(), options);
  const replies: Reply[] = [];
  const waiting = [...checked.entries()];
  const runInTurn = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [at, task] = next;
      replies[at] = await batch.run(task).catch((error: unknown) => {
        throw refusalAt(at, error);
      });
    }
  };
  const slots = Math.min(MAX_LIVE_AGENTS, checked.length);
  await Promise.all(Array.from({ length: slots }, () => runInTurn().catch(batch.refuse)));
  batch.close();
  const { refused } = batch;
  if (refused) throw withReplies(refused.reason, Object.values(replies), batch.begun());
  return replies;
}

function openBatch(context: ParentContext, client: ClientResources, options: TaskOptions): Batch {
  const { signal } = options;
  const rings = listenToDoorbell(client, context.profile.parent);
  const underWay = openUnderWay(context, options);
  let refused: Batch["refused"];
  const batch: Batch = {
    async run(checked) {
      for (;;) {
        const rung = rings.next();
        const reply = await underWay.run(checked);
        if (reply !== "no room") return reply;
        await rung;
      }
    },
    refuse(reason) {
      refused ??= { reason };
      rings.close();
      underWay.cancel(refused.reason);
    },
    get refused() {
      return refused;
    },
    begun: underWay.begun,
    close() {
      forgetSignal();
      forgetCancel();
      rings.close();
    },
  };
  const forgetSignal = onAbort(signal, () => underWay.destroy(signal?.reason));
  const forgetCancel = onCancel(context, signal, batch.refuse);
  return batch;
}

/** Creates the set of a batch's tasks: `cancel` ends only their waits and keeps others from beginning, `destroy` also ends their agents. */
function openUnderWay(context: ParentContext, options: TaskOptions) {
  const cancels = new Set<(reason: unknown) => void>();
  // One signal for each task: Node warns about a signal with many listeners.
  const aborts = new Set<AbortController>();
  let cancelled: { reason: unknown } | undefined;
  const onStop: ParentContext["onStop"] = (cancel) => {
    if (cancelled) cancel(cancelled.reason);
    cancels.add(cancel);
    return () => void cancels.delete(cancel);
  };
  let begun = 0;
  return {
    begun: () => begun,
    async run(checked: CheckedSpawn): Promise<Reply | "no room"> {
      const abort = new AbortController();
      aborts.add(abort);
      try {
        const own = { ...options, signal: abort.signal };
        return await runTask({ ...context, onStop }, checked, own, {
          started: () => begun++,
          destroyed: () => begun--,
        });
      } catch (error) {
        if (error instanceof SubagentError && error.code === "quota_exceeded") return "no room";
        throw error;
      } finally {
        aborts.delete(abort);
      }
    },
    cancel(reason: unknown) {
      cancelled = { reason };
      for (const cancel of [...cancels]) cancel(reason);
    },
    destroy(reason: unknown) {
      for (const abort of [...aborts]) abort.abort(reason);
    },
  };
}

/** Returns the reason; a `SubagentError` also tells what of the batch was begun, with the replies in `details`. */
function withReplies(reason: unknown, replies: readonly Reply[], begun: number): unknown {
  if (!(reason instanceof SubagentError) || replies.length + begun === 0) return reason;
  const sentence = `${reason.message} Of the tasks before, ${replies.length} have replies (details.replies), and ${Math.max(0, begun - replies.length)} go on, with replies in the parent's channel: leave both out of another call.`;
  return new SubagentError(reason.code, sentence, { ...reason.details, replies }, reason);
}
