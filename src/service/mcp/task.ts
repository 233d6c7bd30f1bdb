/**
 * A sub-agent as an MCP task. The task id names the agent and its run, so any process finds the task in Redis; its state is
 * read from the agent's record. Owns no state.
 */

import { z } from "zod";
import { answerQuestion, destroyAgent } from "../../producer/agents.ts";
import { readInput } from "../../producer/input.ts";
import { ackQuestions } from "../../producer/model-replies.ts";
import { asToolResult } from "../../producer/model-text.ts";
import { type ParentContext, withCall, withRead } from "../../producer/parent-context.ts";
import type { Spawned } from "../../producer/spawn.ts";
import { SubagentError } from "../../shared/errors.ts";
import { type AgentRecord, isoTime } from "../../shared/protocol/agent.ts";
import { Uid } from "../../shared/protocol/ids.ts";
import { agentOf, FIRST_RUN, replyIdOf } from "../../shared/protocol/keys.ts";
import type { Timing } from "../../shared/protocol/limits.ts";
import { defaultAnswerTo, MessageText, type OpenQuestion } from "../../shared/protocol/message.ts";
import type { Reply } from "../../shared/protocol/reply.ts";
import { keptReply } from "../../shared/redis/replies.ts";

/** Poll interval suggested to clients: polling more often returns nothing new. */
const POLL_MS = 1_000;
/** A client's answers to the questions of a task, by the keys of `inputRequests`. */
export const InputResponses = z.record(
  z.string().max(512),
  z.object({
    action: z.enum(["accept", "decline", "cancel"]).default("accept"),
    content: z.object({ answer: z.string() }).partial().optional(),
  }),
);

/** The fields of every form of a task. */
interface TaskHead {
  taskId: string;
  status: "working" | "input_required" | "completed" | "failed" | "cancelled";
  createdAt: string;
  lastUpdatedAt: string;
  /** Time from `createdAt` after which the task may be gone, ms; of one that has not ended, the latest. */
  ttlMs: number;
  pollIntervalMs: number;
  statusMessage?: string;
}

/** The parts of a task's head that do not depend on its state. */
interface TaskOrigin {
  readonly taskId: string;
  readonly createdAt: string;
  /** The installation's, which an operator sets. */
  readonly timing: Timing;
}

/** Returns the answer to a call that became a task. */
export async function createdTask(
  { open }: Pick<ParentContext, "open">,
  { address, receipt }: Spawned,
): Promise<TaskHead & { resultType: "task" }> {
  const { timing } = await open();
  const origin = { taskId: replyIdOf(address.uid, FIRST_RUN), createdAt: receipt.created_at, timing };
  return { resultType: "task", ...headOf(origin, "working", `${receipt.agent_id} is queued`) };
}

/** The present state of a task; `ack`, set if it has a final reply, acks the reply and never rejects. */
interface ReadTask {
  task: object;
  ack?: () => Promise<boolean>;
}

/** Reads a task; undefined: this parent has no task with this id. */
export async function readTask(context: ParentContext, taskId: string): Promise<ReadTask | undefined> {
  const found = await findRecord(context, taskId);
  if (!found) return undefined;
  const { record } = found;
  const { channels, timing } = await context.open();
  const origin = { taskId, createdAt: isoTime(record.created_at), timing };
  const kept = keptReply(record);
  if (kept) {
    // The record keeps the reply for a day after its ack, so that a repeated request gets the same answer.
    const ack = async () => {
      const isAcked = await channels.tryAck(context.profile.parent, kept);
      await ackQuestions(context, record, kept.id);
      return isAcked;
    };
    return { task: endedTask(origin, kept.entry), ack };
  }
  return { task: openTask(origin, record) };
}

/** Returns a task without a reply: it has not ended, or its reply is no longer kept. */
function openTask(origin: TaskOrigin, record: AgentRecord): object {
  if (record.status === "ended") {
    const head = headOf(origin, "failed", "its reply is no longer kept");
    return {
      resultType: "complete",
      ...head,
      error: { code: -32603, message: "Its reply is no longer kept." },
    };
  }
  if (record.status === "waiting" && record.questions) {
    const head = headOf(origin, "input_required", `${record.agent_id} asks and waits`);
    return { resultType: "complete", ...head, inputRequests: requestsOf(record.questions) };
  }
  const turns = `${record.progress?.turns ?? 0} of ${record.spec.limits.max_turns} turns`;
  const how = `${record.agent_id}: ${record.status}, ${turns}`;
  return { resultType: "complete", ...headOf(origin, "working", how) };
}

/**
 * Answers questions of a task, as one call. A question that is declined or gets no answer gets its default; one without a response stays open.
 * False: unknown task. Rejects with `invalid_input` before any is answered, and with `already_answered` if another answer came
 * first to one of them; the others are answered then.
 */
export async function updateTask(
  context: ParentContext,
  taskId: string,
  responses: z.output<typeof InputResponses>,
): Promise<boolean> {
  const found = await findRecord(context, taskId);
  if (!found) return false;
  const { uid, agent_id: agentId, questions = [] } = found.record;
  const answers = answersTo(questions, responses);
  if (answers.length === 0) return true;
  const agent = { address: { ...context.profile.parent, uid }, agentId };
  let refusal: unknown;
  await withCall(context, async (call) => {
    for (const each of answers)
      await answerQuestion(call, agent, each).catch((error: unknown) => {
        if (!(error instanceof SubagentError) || error.code !== "already_answered") throw error;
        refusal ??= error;
      });
  });
  if (refusal !== undefined) throw refusal;
  return true;
}

/** Returns the answers to the questions that have a response. Throws `invalid_input` for a text that cannot be one. */
function answersTo(questions: readonly OpenQuestion[], responses: z.output<typeof InputResponses>) {
  return questions.flatMap((question) => {
    const response = responses[question.question_id];
    if (!response) return [];
    const said = response.action === "accept" ? response.content?.answer?.trim() : undefined;
    const unanswered = response.action === "decline" ? "declined" : "none";
    const text = readInput(MessageText, said || defaultAnswerTo(question, unanswered), "tasks/update");
    return [{ text, question_id: question.question_id }];
  });
}

/** Destroys the agent of a task; does nothing if it has ended. False: unknown task. */
export async function cancelTask(context: ParentContext, taskId: string): Promise<boolean> {
  const found = await findRecord(context, taskId);
  if (!found) return false;
  const { record } = found;
  const address = { ...context.profile.parent, uid: record.uid };
  await withCall(context, (call) => destroyAgent(call, { address, agentId: record.agent_id }));
  return true;
}

/** Returns a reply as a tool result: the text for a model, and the same as structured data. */
export function resultOf(reply: Reply) {
  const { agent_id, status, stop_reason, summary, output, turns, tokens, cost_usd, reply_id, files } = reply;
  const { error, undelivered } = reply;
  const structuredContent = {
    ...{ agent_id, reply_id, status, stop_reason, summary, turns, tokens, cost_usd },
    ...(output !== undefined && { output }),
    ...(files && { files }),
    ...(error !== undefined && { error }),
    ...(undelivered && { undelivered }),
  };
  return {
    resultType: "complete" as const,
    content: [{ type: "text" as const, text: asToolResult(reply) }],
    structuredContent,
    ...(status === "failed" && { isError: true }),
  };
}

function endedTask(origin: TaskOrigin, reply: Reply) {
  const { status, stop_reason, created_at: lastUpdatedAt } = reply;
  const tookMs = Math.max(0, Date.parse(lastUpdatedAt) - Date.parse(origin.createdAt));
  // The first answer with the reply acks it: from then on the task is kept for this time.
  const ended = { lastUpdatedAt, ttlMs: tookMs + origin.timing.keptAfterAckMs };
  if (status === "cancelled")
    return { resultType: "complete", ...headOf(origin, status, stop_reason), ...ended };
  const head = headOf(origin, "completed", `${status}, ${stop_reason}`);
  return { resultType: "complete", ...head, ...ended, result: resultOf(reply) };
}

function requestsOf(questions: readonly OpenQuestion[]) {
  const asForm = ({ text, default_answer }: OpenQuestion) => ({
    method: "elicitation/create",
    params: {
      mode: "form",
      message: text,
      requestedSchema: {
        type: "object",
        properties: { answer: { type: "string", ...(default_answer && { default: default_answer }) } },
        required: ["answer"],
      },
    },
  });
  return Object.fromEntries(questions.map((question) => [question.question_id, asForm(question)]));
}

async function findRecord(
  context: ParentContext,
  taskId: string,
): Promise<{ record: AgentRecord } | undefined> {
  const [uid, run] = taskId.split(".");
  if (!Uid.safeParse(uid).success || uid === undefined || run !== String(FIRST_RUN)) return undefined;
  const record = await withRead(context, ({ client, parent }) => client.store.record(agentOf(parent, uid)));
  return record?.run === FIRST_RUN ? { record } : undefined;
}

function headOf(
  { taskId, createdAt, timing }: TaskOrigin,
  status: TaskHead["status"],
  statusMessage: string,
): TaskHead {
  return {
    taskId,
    status,
    createdAt,
    lastUpdatedAt: createdAt,
    ttlMs: timing.maxAgeMs + timing.keptAfterAckMs,
    pollIntervalMs: POLL_MS,
    statusMessage,
  };
}
