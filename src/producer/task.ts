/**
 * The blocking task: spawn with the first message, wait, take the reply; and many of them at once.
 *
 * 1. The reply is reserved before the agent exists, so no reader of this client sees it first.
 * 2. Once the agent exists, a Redis that goes away makes the outcome unknown: the same request key finds it again, and its
 *    reply for a day after its ack.
 * 3. Its questions, where the caller answers them at all, are the caller's: no reader of this client sees them. One whose
 *    answer fails for good ends the waiting and stays in the channel; the agent, which it names, goes on. One that is
 *    unanswered when the reply comes is acked with it.
 * 4. An aborted task leaves no agent and no entry behind, unless Redis is away; then the idle time or the next reader
 *    of the channel ends what is left.
 * 5. Of many tasks, as many run side by side as the parent has room for. They begin in their order; replies come back in
 *    it. A parent without room is asked again when something may have ended: its doorbell rings, or the slow tick comes.
 * 6. After the first refusal nothing more begins. What goes on goes on, its replies stay in the channel, and those
 *    that are in hand stand in the error's `details.replies`.
 * 7. A task that waits for a worker longer than its caller wants ends as an aborted one, with `no_worker`.
 */

import { z } from "zod";
import { type ErrorCode, messageOf, SubagentError } from "../shared/errors.ts";
import { newUid } from "../shared/protocol/ids.ts";
import { agentOf, FIRST_RUN } from "../shared/protocol/keys.ts";
import { MAX_LIVE_AGENTS } from "../shared/protocol/limits.ts";
import { MessageText } from "../shared/protocol/message.ts";
import type { Reply } from "../shared/protocol/reply.ts";
import { onAbort, StopSignal } from "../shared/stop-signal.ts";
import { answerQuestion, destroyAgent } from "./agents.ts";
import type { ClientResources } from "./client-resources.ts";
import { readInput } from "./input.ts";
import { onCancel, type ParentContext, withCall } from "./parent-context.ts";
import { registeredProfile } from "./registered-profile.ts";
import type { QuestionEntry, TakeQuestion } from "./replies/parent-channel.ts";
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
import { isNoWorker, type OnWait, type TaskWait, watchTask } from "./task-wait-reasons.ts";

const MAX_TASKS = 10_000;
/** Time between two tries of an answer while Redis is away. */
const RETRY_MS = 1_000;
/** The end of an aborted task is looked for so long: two calls at their longest. */
const END_SEEN_WITHIN_MS = 1_600;
const TOO_LATE: readonly ErrorCode[] = ["already_answered", "unknown_question", "agent_ended"];
const AnswerInput = z.object({ text: MessageText });
const Tasks = z.array(z.unknown()).min(1, "give at least one task").max(MAX_TASKS);

/** What a handle hears of its task: that the agent is there, and what it waits for. May not throw. */
interface TaskListener {
  started(receipt: SpawnReceipt): void;
  waits: OnWait;
}

/** A task's reply, and the tools of its allowlist that no live worker has. */
export interface TaskOutcome {
  reply: Reply;
  unknownTools: string[];
}

/** A task under way: a promise of its reply. */
export interface TaskHandle<R = Reply> extends Promise<R> {
  /** What the spawn came to: the agent's id, long before its end. Rejects as the task does when there was no spawn. */
  readonly started: Promise<SpawnReceipt>;
  /** What it waits for now beside its own work: a live worker, tools, the provider; undefined: for nothing. */
  readonly waits: TaskWait | undefined;
}

/** Runs one task to its reply, acked; see `Parent.task`. `agent`: with the limits of a spawn. */
export async function task(
  context: ParentContext,
  kind: "task" | "agent",
  input: unknown,
  options: TaskOptions = {},
  listener?: TaskListener,
): Promise<TaskOutcome> {
  const { input: plain, typed } = withJsonSchema(input, "task");
  const { input: task, ...beside } = splitTaskInput(plain);
  const wanted = mergeTaskOptions(beside, options);
  const planned = checkSpawn(kind, task, context, { answersTask: wanted.onQuestion !== undefined });
  const outcome = await runTask(context, planned, wanted, listener);
  return { ...outcome, reply: typed(outcome.reply) };
}

/** Runs one task, and tells about its agent before the end; see `Parent.task`. */
export function taskHandle(context: ParentContext, input: unknown, options?: TaskOptions): TaskHandle {
  let started: TaskListener["started"] = () => {};
  let refuse: (reason: unknown) => void = () => {};
  const receipt = new Promise<SpawnReceipt>((resolve, reject) => {
    started = resolve;
    refuse = reject;
  });
  // A caller that only wants the reply learns from it why there was no spawn.
  receipt.catch(() => {});
  const handle: { started: Promise<SpawnReceipt>; waits: TaskWait | undefined } = {
    started: receipt,
    waits: undefined,
  };
  const waits: OnWait = (wait) => Object.assign(reply, { waits: wait });
  const reply = task(context, "task", input, options, { started, waits }).then(
    (outcome) => outcome.reply,
    (reason: unknown) => {
      refuse(reason);
      throw reason;
    },
  );
  return Object.assign(reply, handle);
}

/** Runs many tasks to their replies, acked; see `Parent.taskAll`. */
export async function taskAll(
  context: ParentContext,
  inputs: readonly unknown[],
  options: TaskOptions = {},
): Promise<Reply[]> {
  const wanted = mergeTaskOptions({}, options, "taskAll");
  const answersTask = wanted.onQuestion !== undefined;
  const read = Array.isArray(inputs) ? inputs.map((input) => withJsonSchema(input, "taskAll")) : [];
  const wishes = Array.isArray(inputs) ? read.map(({ input }) => input) : inputs;
  const planned = readInput(Tasks, wishes, "taskAll").map((input) => {
    const wish = typeof input === "string" ? { prompt: input } : input;
    return checkSpawn("task", wish, context, { answersTask });
  });
  // Read first, so that what the profile refuses is refused before any has begun.
  const registered = await registeredProfile(context);
  for (const each of planned) await requireAllowed(context, each, registered);
  const replies = await runBatch(context, planned, wanted);
  return replies.map((reply, at) => read[at]?.typed(reply) ?? reply);
}

/** One task under way. */
interface OngoingTask {
  readonly context: ParentContext;
  readonly client: ClientResources;
  readonly onQuestion: AnswerQuestions | undefined;
  /** Stops when the task is over, however it ended. */
  readonly over: StopSignal;
  /** Ends the waiting with a reason; the first one counts. */
  cancel(reason: unknown): void;
}

/** Rejects like spawn and send, and with the signal's reason. */
async function runTask(
  context: ParentContext,
  planned: CheckedSpawn,
  options: TaskOptions,
  listener?: TaskListener,
): Promise<TaskOutcome> {
  const { signal, onQuestion } = options;
  const client = await context.open();
  signal?.throwIfAborted();
  const { parent } = context.profile;
  const uid = newUid();
  const over = new StopSignal();
  let cancelled: { reason: unknown } | undefined;
  const cancel = (reason: unknown) => {
    cancelled ??= { reason };
    reservation.cancel(reason);
  };
  const questions = takerOfQuestions({ context, client, onQuestion, over, cancel });
  let reservation = client.channels.reserve(parent, uid, questions?.take);
  const forget = onCancel(context, signal, cancel);
  let spawned: Spawned | undefined;
  let [isReserved, isAcked] = [true, false];
  try {
    spawned = await withCall(context, (call) => spawnAgent(call, planned, uid));
    listener?.started(spawned.receipt);
    const { known } = spawned.receipt;
    if (known) {
      reservation.release(false);
      reservation = client.channels.reserve(parent, spawned.address.uid, questions?.take);
      if (cancelled) reservation.cancel(cancelled.reason);
    }
    watchTask(client, spawned.address, options, { tellHandle: listener?.waits, cancel, over });
    const bornAt = Date.parse(spawned.receipt.created_at);
    const entry = await reservation.wait(FIRST_RUN, known ? "even_if_acked" : { bornAt });
    // The reply is in hand; its ack goes out when the caller has it, and the reservation stands until that is answered.
    const held = reservation;
    const acking = new Promise(setImmediate).then(() => client.channels.tryAck(parent, entry));
    client.inBackground(acking.then((acked) => held.release(acked)));
    isReserved = false;
    return { reply: entry.entry, unknownTools: spawned.receipt.unknown_tools };
  } catch (error) {
    if (spawned && (signal?.aborted || isNoWorker(error))) isAcked = await destroyQuietly(client, spawned);
    throw error;
  } finally {
    forget();
    over.stop();
    if (questions && (isAcked || !isReserved)) client.inBackground(questions.ackOpen());
    if (isReserved) reservation.release(isAcked);
  }
}

/** The questions of one task. */
interface TaskQuestions {
  take: TakeQuestion;
  /** Acks those that no answer has come to, once the agent's reply needs none. */
  ackOpen(): Promise<void>;
}

/** Hands each question to the caller and its answer to the agent; a failure for good ends the task's waiting. */
function takerOfQuestions(run: OngoingTask): TaskQuestions | undefined {
  const { client, context, onQuestion, over, cancel } = run;
  if (!onQuestion) return undefined;
  const open = new Set<QuestionEntry>();
  const ack = async (entry: QuestionEntry) => {
    open.delete(entry);
    await client.channels.tryAck(context.profile.parent, entry);
  };
  const answer = async (entry: QuestionEntry) => {
    open.add(entry);
    const { text } = readInput(AnswerInput, { text: await onQuestion(entry.entry) }, "answer");
    while (!(await tryAnswer(context, entry, text)) && !over.isStopped)
      await client.clock.sleep(RETRY_MS, over.signal);
    if (open.has(entry)) await ack(entry);
  };
  return {
    take: (entry) => void answer(entry).catch(cancel),
    ackOpen: async () => void (await Promise.all([...open].map(ack))),
  };
}

/** Answers; false when Redis was away, and the answer is to be sent again. */
async function tryAnswer(context: ParentContext, { uid, entry }: QuestionEntry, text: string) {
  const { agent_id, question_id } = entry;
  const agent = { address: agentOf(context.profile.parent, uid), agentId: agent_id };
  try {
    await withCall(context, (call) => answerQuestion(call, agent, { text, question_id }));
    return true;
  } catch (error) {
    if (!(error instanceof SubagentError)) throw error;
    // The default came first, or the agent ended meanwhile: its reply says how it went on.
    if (TOO_LATE.includes(error.code)) return true;
    if (error.retryable) return false;
    throw error;
  }
}

/**
 * Destroys an aborted task's agent and takes the entry of its end out of the channel, each within the time of a call: true
 * when both worked.
 */
async function destroyQuietly(
  client: ClientResources,
  { address, receipt: { agent_id } }: Spawned,
): Promise<boolean> {
  const reservation = client.channels.reserve(address, address.uid);
  const timer = client.clock.timeout(END_SEEN_WITHIN_MS, () => {
    reservation.cancel(new SubagentError("closed", "The end of the aborted task was not seen in time."));
  });
  let acked = false;
  try {
    await client.call((call) =>
      destroyAgent({ ...call, client, parent: address }, { address, agentId: agent_id }),
    );
    acked = await client.channels.tryAck(address, await reservation.wait(FIRST_RUN, "only_if_unacked"));
  } catch (error) {
    client.logger.warn(
      { agent_id, problem: messageOf(error) },
      "an aborted task's sub-agent was not destroyed",
    );
  }
  timer.cancel();
  reservation.release(acked);
  return acked;
}

/** The tasks of one call that are under way. */
interface Batch {
  /** Runs a task as soon as there is room; undefined once the batch was refused. */
  run(task: CheckedSpawn): Promise<Reply | undefined>;
  /** Ends all waiting with a reason; the first one counts. */
  refuse(reason: unknown): void;
  readonly refused: { reason: unknown } | undefined;
  close(): void;
}

/** Rejects with the signal's reason or the first refusal but for quota. */
async function runBatch(
  context: ParentContext,
  planned: readonly CheckedSpawn[],
  options: TaskOptions,
): Promise<Reply[]> {
  options.signal?.throwIfAborted();
  const batch = openBatch(context, await context.open(), options);
  const replies: Reply[] = [];
  const waiting = [...planned.entries()];
  const runInTurn = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const reply = await batch.run(next[1]);
      if (!reply) return;
      replies[next[0]] = reply;
    }
  };
  const slots = Math.min(MAX_LIVE_AGENTS, planned.length);
  await Promise.all(Array.from({ length: slots }, () => runInTurn().catch(batch.refuse)));
  batch.close();
  const { refused } = batch;
  if (refused) throw withReplies(refused.reason, Object.values(replies));
  return replies;
}

function openBatch(context: ParentContext, client: ClientResources, options: TaskOptions): Batch {
  const { signal } = options;
  const rings = listenToDoorbell(client, context.profile.parent);
  const underWay = openUnderWay(context, options);
  let refused: Batch["refused"];
  const batch: Batch = {
    async run(planned) {
      while (!refused) {
        const rung = rings.next();
        const reply = await underWay.run(planned);
        if (reply !== "no room") return reply;
        await rung;
      }
      return undefined;
    },
    refuse(reason) {
      refused ??= { reason };
      rings.close();
      underWay.cancel(refused.reason);
    },
    get refused() {
      return refused;
    },
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

/** The tasks of a batch that are under way: `cancel` ends their waiting only, `destroy` their agents, too. */
function openUnderWay(context: ParentContext, options: TaskOptions) {
  const cancels = new Set<(reason: unknown) => void>();
  // A signal for each task: one with many listeners would be warned about.
  const aborts = new Set<AbortController>();
  const onStop: ParentContext["onStop"] = (cancel) => {
    cancels.add(cancel);
    return () => void cancels.delete(cancel);
  };
  return {
    async run(planned: CheckedSpawn): Promise<Reply | "no room"> {
      const abort = new AbortController();
      aborts.add(abort);
      try {
        const own = { ...options, signal: abort.signal };
        return (await runTask({ ...context, onStop }, planned, own)).reply;
      } catch (error) {
        if (error instanceof SubagentError && error.code === "quota_exceeded") return "no room";
        throw error;
      } finally {
        aborts.delete(abort);
      }
    },
    cancel(reason: unknown) {
      for (const cancel of [...cancels]) cancel(reason);
    },
    destroy(reason: unknown) {
      for (const abort of [...aborts]) abort.abort(reason);
    },
  };
}

/** The reason, and for an error of ours the replies that came before it. */
function withReplies(reason: unknown, replies: readonly Reply[]): unknown {
  if (!(reason instanceof SubagentError) || replies.length === 0) return reason;
  return new SubagentError(reason.code, reason.message, { ...reason.details, replies }, reason);
}
