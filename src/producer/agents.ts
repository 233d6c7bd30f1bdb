/** A parent's calls on existing agents: find, send, answer, list, get, finish, destroy, usage, full texts. */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import { type AgentStatus, type AgentView, type EndedReason, viewOf } from "../shared/protocol/agent.ts";
import { AgentId, newRequestKey } from "../shared/protocol/ids.ts";
import { type AgentAddress, agentOf, wakeOf } from "../shared/protocol/keys.ts";
import { answerEntry, LOG_MAX_BYTES } from "../shared/protocol/log.ts";
import { attachedText, attachmentKey, type InboxMessage, MessageText } from "../shared/protocol/message.ts";
import { quoted } from "../shared/protocol/text.ts";
import type { UsageTotals } from "../shared/protocol/usage.ts";
import type { VerbAnswer } from "../shared/redis/scripts.ts";
import { digestOf, MessageInput, type MessageOptions, objectOf, readInput, readOptions } from "./input.ts";
import { type ParentCall, type ParentContext, withCall, withRead } from "./parent-context.ts";

/** An agent of a parent: its address and its id. */
export interface FoundAgent {
  address: AgentAddress;
  agentId: string;
}

/** The receipt of a send: `queued` began a run, `delivered` goes to a queued or running run. */
export interface SendReceipt {
  status: "queued" | "delivered";
  agent_id: string;
  run: number;
  message_id: string;
}

/** The receipt of an answer. `agent_status`: `queued`: the agent goes on; `waiting`: it has further open questions. */
export interface AnswerReceipt {
  status: "answered";
  agent_id: string;
  question_id: string;
  agent_status: AgentStatus;
}

/** The receipt of a destroy; `ended_reason`: why the agent ended, by this call or before it. */
export interface DestroyReceipt {
  status: "destroyed" | "already_ended";
  agent_id: string;
  ended_reason: EndedReason;
}

/** The receipt of a finish. `finishing`: the current run ends; `idle`: there is no run; or the agent had ended before. */
export type FinishReceipt =
  | { status: "finishing"; agent_id: string; run: number }
  | { status: "idle"; agent_id: string }
  | { status: "already_ended"; agent_id: string; ended_reason: EndedReason };

const REPLY_ID = /^sa-[0-9a-f]{24}\.(\d{1,15}|end)$/;
const AnswerInput = z.strictObject({ text: MessageText, question_id: z.string().min(1).max(512).optional() });
const UsageInput = z.strictObject({ since: z.coerce.date().min(new Date(0)).default(new Date(0)) });

/** Runs `work` on the agent that `agentId` names, as one call. Rejects with `unknown_agent`. */
export function withAgent<T>(
  context: ParentContext,
  agentId: unknown,
  work: (call: ParentCall, agent: FoundAgent) => Promise<T>,
): Promise<T> {
  return withCall(context, async (call) => work(call, await findAgent(call, agentId)));
}

/** Finds the agent with id `agentId`; ignores surrounding blanks. Rejects with `unknown_agent`. */
export async function findAgent(call: ParentCall, agentId: unknown): Promise<FoundAgent> {
  const { client, parent } = call;
  const id = AgentId.safeParse(typeof agentId === "string" ? agentId.trim() : agentId);
  if (!id.success) throw unknownAgent(agentId);
  const uid = await call.read(() => client.store.uidOf(parent, id.data));
  if (uid === undefined) throw unknownAgent(agentId);
  return { address: agentOf(parent, uid), agentId: id.data };
}

const NO_ROOM_FOR_MESSAGE =
  "it takes no message of this length any more; spawn a new one and tell it what it needs to know";

/** Sends a message to a parent's agent; see `Parent.send`. */
export async function send(
  context: ParentContext,
  agentId: string,
  text: string,
  options: MessageOptions = {},
): Promise<SendReceipt> {
  const message = readInput(MessageInput, { text, ...objectOf(options, "send") }, "send");
  return withAgent(context, agentId, (call, agent) => sendMessage(call, agent, message));
}

/** Answers a question of a parent's agent; see `Parent.answer`. */
export async function answer(
  context: ParentContext,
  agentId: string,
  text: string,
  options: { question_id?: string } = {},
): Promise<AnswerReceipt> {
  const input = readInput(AnswerInput, { text, ...objectOf(options, "answer") }, "answer");
  return withAgent(context, agentId, (call, agent) => answerQuestion(call, agent, input));
}

/** Sends a model's text, a `MessageText`, to an agent: as the answer to its oldest open question, or as a message if it has none. */
export async function answerOrSend(
  context: ParentContext,
  agentId: string,
  text: string,
): Promise<SendReceipt | AnswerReceipt> {
  return withAgent(context, agentId, async (call, agent) => {
    const question_id = await oldestQuestion(call, agent);
    return question_id === undefined
      ? sendMessage(call, agent, { text })
      : answerQuestion(call, agent, { text, question_id });
  });
}

/**
 * Lists the parent's live agents, oldest first; omits ended agents, and agents whose record only a newer version of the
 * package can read.
 */
export async function listAgents(context: ParentContext): Promise<AgentView[]> {
  const records = await withRead(context, ({ client, parent }) => client.store.liveRecords(parent));
  return records
    .filter((record) => record.status !== "ended")
    .sort((a, b) => a.created_at - b.created_at || (a.agent_id < b.agent_id ? -1 : 1))
    .map(viewOf);
}

/** Returns one agent, also an ended one while its record is kept. Rejects with `unknown_agent`. */
export async function viewAgent({ read, client }: ParentCall, agent: FoundAgent): Promise<AgentView> {
  const record = await read(() => client.store.record(agent.address));
  if (!record) throw unknownAgent(agent.agentId);
  return viewOf(record);
}

/** Reads the usage of the parent's runs; see `Parent.usage`. */
export async function readUsage(
  context: ParentContext,
  options: { since?: Date | string } = {},
): Promise<UsageTotals> {
  const { since } = readOptions(UsageInput, options, "usage");
  return withRead(context, ({ client, parent }) => client.store.usage(parent, since.getTime()));
}

/** Reads the full text of a reply whose summary was cut; undefined if it was not cut or is no longer kept. */
export async function readFullText(context: ParentContext, replyId: string): Promise<string | undefined> {
  if (!REPLY_ID.test(replyId)) return undefined;
  return withRead(context, ({ client, parent }) => client.store.fullText(parent, replyId));
}

/**
 * Sends a message: first the deadline hint, then the verb, then the wake. Rejects with `agent_ended`, `unknown_agent`,
 * `conflict` (message id used with another text), `inbox_full`, `log_full`, `invalid_config` (a Redis unfit for production),
 * `redis_unavailable`, `outcome_unknown`.
 */
async function sendMessage(
  call: ParentCall,
  agent: FoundAgent,
  { text, message_id = newRequestKey(), ...more }: z.output<typeof MessageInput>,
): Promise<SendReceipt> {
  const { store, requireDurable } = call.client;
  await requireDurable(call);
  await hintDeadline(call, agent);
  const attached = attachedText(more);
  const payload: InboxMessage = { v: 1, message_id, text, ...(attached && { attached: true }) };
  const stored = {
    message_id,
    payload: JSON.stringify(payload),
    digest: digestOf(attached === undefined ? text : { text, attached }),
    ...(attached && { attached, attached_to: attachmentKey(message_id) }),
  };
  const sent = await call.write({ what: "the sending", key: { message_id } }, () =>
    store.send(agent.address, stored),
  );
  const receipt = (status: SendReceipt["status"], run: number): SendReceipt => ({
    status,
    agent_id: agent.agentId,
    run,
    message_id,
  });
  switch (sent.status) {
    case "delivered":
      return receipt("delivered", sent.run);
    case "same":
      // The first attempt may have ended before it added the wake; a second wake is harmless.
      if (sent.agent_status === "queued") await wakeUp(call, agent, sent.wake);
      return receipt(sent.receipt, sent.run);
    case "queued":
      await wakeUp(call, agent, sent.wake);
      return receipt("queued", sent.run);
    default:
      throw sendRefusal(sent, agent.agentId, message_id);
  }
}

function sendRefusal(
  answer: Extract<
    VerbAnswer<"send">,
    { status: "unknown" | "ended" | "conflict" | "inbox_full" | "log_full" }
  >,
  agentId: string,
  messageId: string,
): SubagentError {
  switch (answer.status) {
    case "unknown":
      return unknownAgent(agentId);
    case "ended":
      return agentEnded(agentId, answer.reason);
    case "conflict":
      return new SubagentError(
        "conflict",
        `message_id "${messageId}" was used with another text: use a new one.`,
        { message_id: messageId },
      );
    case "inbox_full":
      return new SubagentError(
        "inbox_full",
        `The inbox of sub-agent "${agentId}" is full (${answer.messages} unread messages): wait until it has read some.`,
        { agent_id: agentId, unread: answer.messages },
      );
    case "log_full":
      return logFull(agentId, answer.log_bytes, NO_ROOM_FOR_MESSAGE);
  }
}

/** Hints an earlier deadline to the sweepers, before the verb that sets it. */
async function hintDeadline({ read, client }: ParentCall, { address }: FoundAgent): Promise<void> {
  await read(() => client.deadlines.hintByParent(address, client.timing.checkMs));
}

/** Adds the job of a wake. The record already has the work, so a sweeper adds the job again if this fails. */
async function wakeUp(
  { attempt, client }: ParentCall,
  { address, agentId }: FoundAgent,
  wake: number,
): Promise<void> {
  await attempt(() => client.wakes.add(wakeOf(address, agentId, wake)));
}

/** Ends an agent at once. Rejects with `unknown_agent`, `redis_unavailable` or `outcome_unknown`. */
export async function destroyAgent(
  { write, client }: ParentCall,
  { address, agentId }: FoundAgent,
): Promise<DestroyReceipt> {
  let repeats = false;
  const answer = await write({ what: "the destroy", key: { agent_id: agentId } }, (repeated) => {
    repeats = repeated;
    return client.store.settle(address, {
      authority: "parent",
      target: "ended",
      ended_reason: "destroyed",
      status: "cancelled",
      stop_reason: "destroyed",
    });
  });
  if (answer.status === "settled")
    return { status: "destroyed", agent_id: agentId, ended_reason: "destroyed" };
  if (answer.status !== "same") throw unknownAgent(agentId);
  const reason = answer.ended_reason as EndedReason;
  // Destroyed after a repeated command: our first attempt destroyed the agent, and only its answer was lost.
  const ours = repeats && reason === "destroyed";
  return { status: ours ? "destroyed" : "already_ended", agent_id: agentId, ended_reason: reason };
}

/**
 * Asks for a graceful end: first the deadline hint, then the verb, then the wake if the verb returns one. Rejects with
 * `unknown_agent`, `redis_unavailable` or `outcome_unknown`.
 */
export async function finishAgent(call: ParentCall, agent: FoundAgent): Promise<FinishReceipt> {
  const { agentId } = agent;
  await hintDeadline(call, agent);
  const answer = await call.write({ what: "the finishing", key: { agent_id: agentId } }, () =>
    call.client.store.finish(agent.address),
  );
  switch (answer.status) {
    case "finishing":
      // The verb queues a run that waited for an answer; if the run was queued before, a second wake is harmless.
      if (answer.wake !== undefined) await wakeUp(call, agent, answer.wake);
      return { status: "finishing", agent_id: agentId, run: answer.run };
    case "idle":
    case "not_due":
      return { status: "idle", agent_id: agentId };
    case "ended":
      return { status: "already_ended", agent_id: agentId, ended_reason: answer.reason };
    case "unknown":
      throw unknownAgent(agentId);
  }
}

/** Reads the oldest open question of an agent; undefined if there is none. Rejects with `unknown_agent`, `agent_ended`. */
async function oldestQuestion(
  { read, client }: ParentCall,
  { address, agentId }: FoundAgent,
): Promise<string | undefined> {
  const record = await read(() => client.store.record(address));
  if (!record) throw unknownAgent(agentId);
  if (record.status === "ended") throw agentEnded(agentId, record.ended_reason ?? "completed");
  return record.questions?.[0]?.question_id;
}

/**
 * Answers a question, by default the oldest open one: first the deadline hint, then the verb, then the wake. Repeating the
 * same answer is safe. Rejects with `unknown_question`, `already_answered`, `agent_ended`, `unknown_agent`,
 * `redis_unavailable`, `outcome_unknown`.
 */
export async function answerQuestion(
  call: ParentCall,
  agent: FoundAgent,
  { text, question_id: named }: { text: string; question_id?: string | undefined },
): Promise<AnswerReceipt> {
  const { agentId } = agent;
  const question_id = named ?? (await oldestQuestion(call, agent));
  if (question_id === undefined) throw unknownQuestion(agentId, undefined);
  await hintDeadline(call, agent);
  const answered = await call.write({ what: "the answering", key: { question_id } }, () =>
    call.client.store.answer(agent.address, {
      authority: "parent",
      question_id,
      entry: answerEntry(text),
    }),
  );
  const receipt = (agent_status: AgentStatus): AnswerReceipt => ({
    status: "answered",
    agent_id: agentId,
    question_id,
    agent_status,
  });
  switch (answered.status) {
    case "waiting":
      return receipt("waiting");
    case "same":
      // The first attempt may have ended before it added the wake; a second wake is harmless.
      if (answered.agent_status === "queued") await wakeUp(call, agent, answered.wake);
      return receipt(answered.agent_status);
    case "queued":
      await wakeUp(call, agent, answered.wake);
      return receipt("queued");
    case "answered":
      throw new SubagentError(
        "already_answered",
        `Question "${question_id}" of "${agentId}" has another answer already, from its parent or by default: send it a message instead.`,
        { agent_id: agentId, question_id },
      );
    case "log_full":
      throw logFull(agentId, answered.log_bytes, "give a shorter answer, or ask it to finish");
    case "ended":
      throw agentEnded(agentId, answered.reason);
    case "unknown":
      throw unknownAgent(agentId);
    default:
      throw unknownQuestion(agentId, question_id);
  }
}

/** Returns the error for an unknown agent: the same for an agent that never existed and for another parent's agent. */
function unknownAgent(agentId: unknown): SubagentError {
  const which =
    typeof agentId === "string" ? `This parent has no sub-agent ${quoted(agentId)}` : "No sub-agent is named";
  return new SubagentError("unknown_agent", `${which}: use an agent_id as spawn returned it, or list them.`);
}

/** Returns the error for an agent that has ended. */
function agentEnded(agentId: string, reason: string): SubagentError {
  return new SubagentError("agent_ended", `Sub-agent "${agentId}" has ended (${reason}): spawn a new one.`, {
    agent_id: agentId,
    ended_reason: reason,
  });
}

/** Returns the error for a text that would make an agent's log too long. `instead`: what the caller should do. */
export function logFull(agentId: string, logBytes: number, instead: string): SubagentError {
  const megabytes = (bytes: number) => `${Math.floor((bytes / 1024 ** 2) * 10) / 10} MB`;
  return new SubagentError(
    "log_full",
    `The log of sub-agent "${agentId}" has ${megabytes(logBytes)}, of ${megabytes(LOG_MAX_BYTES)} that it may have: ${instead}.`,
    { agent_id: agentId, log_bytes: logBytes, max_log_bytes: LOG_MAX_BYTES },
  );
}

function unknownQuestion(agentId: string, questionId: string | undefined): SubagentError {
  const [which, other] =
    questionId === undefined
      ? ["no open question", ""]
      : [`no open question ${JSON.stringify(questionId)}`, "omit its id to answer the oldest one, or "];
  return new SubagentError(
    "unknown_question",
    `Sub-agent "${agentId}" has ${which}: ${other}send it a message instead.`,
    {
      agent_id: agentId,
      ...(questionId !== undefined && { question_id: questionId }),
    },
  );
}
