/**
 * The blocking task: spawn, send, wait, take the reply.
 *
 * 1. The reply is reserved before the agent exists, so no reader of this client sees it first.
 * 2. Once the agent exists, a Redis that goes away makes the outcome unknown: the same request key finds it again.
 * 3. Its questions, where they are answered at all, are the caller's: no reader of this client sees them. One whose answer
 *    fails for good ends the waiting; the agent goes on with its default.
 * 4. An aborted task leaves no agent and no entry behind, unless Redis is away; then the idle time or the next reader
 *    of the channel ends what is left.
 */
import { z } from "zod";
import { type ErrorCode, messageOf, SubagentError } from "../shared/errors.ts";
import { newRequestKey, newUid } from "../shared/protocol/ids.ts";
import { MessageText } from "../shared/protocol/message.ts";
import type { Question, Reply } from "../shared/protocol/reply.ts";
import { answerQuestion } from "./answering.ts";
import type { OpenClient } from "./client.ts";
import { readInput } from "./input.ts";
import { destroyAgent, type FoundAgent, sendMessage } from "./managing.ts";
import type { Profile } from "./profile.ts";
import type { QuestionEntry, TakeQuestion } from "./reply-channel.ts";
import type { PreparedSpawn } from "./spawn-arguments.ts";
import { type Spawned, spawnAgent } from "./spawning.ts";
import { takeFromChannel } from "./taking.ts";

const FIRST_RUN = 1;
/** Time between two tries of an answer while Redis is away. */
const RETRY_MS = 1_000;
const TOO_LATE: readonly ErrorCode[] = ["already_answered", "unknown_question", "agent_ended"];
const AnswerWish = z.object({ text: MessageText });

/** Answers the questions of a task. */
export type AnswerQuestions = (question: Question) => Promise<string> | string;

/** How a task is ended from outside: `open` gets the means to end it, and takes it back with the function it returns. */
export interface TaskRoom {
  client: OpenClient;
  profile: Profile;
  signal?: AbortSignal | undefined;
  /** Whoever answers what the agent asks; without it the agent cannot ask. */
  onQuestion?: AnswerQuestions | undefined;
  open(cancel: (reason: unknown) => void): () => void;
}

/** A task's reply, and the tools of its allowlist that no live worker has. */
export interface TaskOutcome {
  reply: Reply;
  unknownTools: string[];
}

/** Runs a prepared task to its reply, and acks it. Rejects like spawn and send, and with the signal's reason. */
export async function runTask(room: TaskRoom, prepared: PreparedSpawn): Promise<TaskOutcome> {
  const { client, profile, signal } = room;
  signal?.throwIfAborted();
  const uid = newUid();
  const over = new AbortController();
  const takeQuestion = questionsOf(room, over.signal, (reason) => cancel(reason));
  let reservation = client.inbox.reserve(profile.parent, uid, takeQuestion);
  let cancelled: { reason: unknown } | undefined;
  const cancel = (reason: unknown) => {
    cancelled ??= { reason };
    reservation.cancel(reason);
  };
  const onAbort = () => cancel(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  const close = room.open(cancel);
  let spawned: Spawned | undefined;
  let taken = false;
  try {
    spawned = await spawnAgent(client, client.call(), profile, prepared, uid);
    if (!spawned.fresh) {
      reservation.release(false);
      reservation = client.inbox.reserve(profile.parent, spawned.address.uid, takeQuestion);
      if (cancelled) reservation.cancel(cancelled.reason);
    }
    if (!signal?.aborted) await sendPrompt(client, spawned, prepared);
    const entry = await reservation.wait(FIRST_RUN, spawned.fresh);
    reservation.release(await takeFromChannel(client, profile.parent, entry));
    return { reply: entry.entry, unknownTools: spawned.receipt.unknown_tools };
  } catch (error) {
    if (spawned && signal?.aborted) taken = await destroyQuietly(client, profile, spawned);
    throw error;
  } finally {
    signal?.removeEventListener("abort", onAbort);
    close();
    over.abort();
    reservation.release(taken);
  }
}

/** Hands each question to the caller and its answer to the agent; `fail` ends the task's waiting. */
function questionsOf(
  room: TaskRoom,
  over: AbortSignal,
  fail: (reason: unknown) => void,
): TakeQuestion | undefined {
  const { client, profile, onQuestion } = room;
  if (!onQuestion) return undefined;
  const answer = async (entry: QuestionEntry) => {
    const { text } = readInput(AnswerWish, { text: await onQuestion(entry.entry) }, "answer");
    while (!(await isAnswered(room, entry, text)) && !over.aborted) await client.clock.sleep(RETRY_MS, over);
    await takeFromChannel(client, profile.parent, entry);
  };
  return (entry) => void answer(entry).catch(fail);
}

/** Answers; false when Redis was away, and it is to be tried again. */
async function isAnswered({ client, profile }: TaskRoom, { uid, entry }: QuestionEntry, text: string) {
  const found: FoundAgent = { address: { ...profile.parent, uid }, agentId: entry.agent_id };
  try {
    await answerQuestion(client, client.call(), found, { text, questionId: entry.question_id });
    return true;
  } catch (error) {
    if (!(error instanceof SubagentError)) throw error;
    // The default came first, or the agent ended meanwhile: its reply says how it went on.
    if (TOO_LATE.includes(error.code)) return true;
    if (error.retryable) return false;
    throw error;
  }
}

async function sendPrompt(client: OpenClient, { address, receipt }: Spawned, prepared: PreparedSpawn) {
  const { requestKey, prompt = "" } = prepared;
  const found: FoundAgent = { address, agentId: receipt.agent_id };
  try {
    await sendMessage(client, client.call(), found, { text: prompt, messageId: requestKey });
  } catch (error) {
    if (!(error instanceof SubagentError) || !error.retryable || error.code === "inbox_full") throw error;
    throw new SubagentError(
      "outcome_unknown",
      `Redis did not answer, so it is unknown whether the task began: the same call with request_key "${requestKey}" is safe.`,
      { request_key: requestKey, agent_id: receipt.agent_id },
      error,
    );
  }
}

/** Destroys an aborted task's agent and takes the entry of its end out of the channel: true when both worked. */
async function destroyQuietly(
  client: OpenClient,
  profile: Profile,
  { address, receipt }: Spawned,
): Promise<boolean> {
  const call = client.call();
  const reservation = client.inbox.reserve(profile.parent, address.uid);
  let acked = false;
  await call.hint(
    async () => {
      await destroyAgent(client, call, { address, agentId: receipt.agent_id });
      const entry = await reservation.wait(FIRST_RUN, false);
      await client.inbox.acker(profile.parent)(entry, newRequestKey());
      acked = true;
    },
    (error) =>
      client.logger.warn(
        { agent_id: receipt.agent_id, problem: messageOf(error) },
        "an aborted task's sub-agent was not destroyed",
      ),
  );
  reservation.cancel(new SubagentError("closed", "The task was aborted."));
  reservation.release(acked);
  return acked;
}
