/** What a parent does with agents that exist: find, send, list, get, finish, destroy, read a full text. */
import { messageOf, SubagentError } from "../shared/errors.ts";

import { type AgentView, type EndedReason, viewOf } from "../shared/protocol/agent.ts";
import { AgentId } from "../shared/protocol/ids.ts";
import { type AgentAddress, type ParentAddress, wakeOf } from "../shared/protocol/keys.ts";
import type { Answer } from "../shared/redis/script-table.ts";
import type { Call } from "./call.ts";
import type { OpenClient } from "./client.ts";
import { digestOf } from "./input.ts";

/** An agent of a parent: where it is and what it is called. */
export interface FoundAgent {
  address: AgentAddress;
  agentId: string;
}

/** What send answers: `queued` began a run, `delivered` goes to a run that is queued or going on. */
export interface SendReceipt {
  status: "queued" | "delivered";
  agent_id: string;
  run: number;
  message_id: string;
}

/** What destroy answers; `ended_reason` is why the agent ended, by this call or before it. */
export interface DestroyReceipt {
  status: "destroyed" | "already_ended";
  agent_id: string;
  ended_reason: EndedReason;
}

/** What finish answers: `finishing` the run that is going on; `idle`: nothing is going on; or it had ended before. */
export type FinishReceipt =
  | { status: "finishing"; agent_id: string; run: number }
  | { status: "idle"; agent_id: string }
  | { status: "already_ended"; agent_id: string; ended_reason: EndedReason };

const SHOWN_CHARS = 70;
const REPLY_ID = /^sa-[0-9a-f]{24}\.(\d{1,15}|end)$/;

/** The refusal of an agent that this parent does not have: the same for one that never was and for somebody else's. */
export function unknownAgent(agentId: unknown): SubagentError {
  const shown = JSON.stringify(String(agentId).slice(0, SHOWN_CHARS));
  return new SubagentError(
    "unknown_agent",
    `This parent has no sub-agent ${shown}: use an agent_id as spawn returned it, or list them.`,
  );
}

/** The refusal of an agent that has ended. */
export function agentEnded(agentId: string, reason: string): SubagentError {
  return new SubagentError("agent_ended", `Sub-agent "${agentId}" has ended (${reason}): spawn a new one.`, {
    agent_id: agentId,
    ended_reason: reason,
  });
}

/** The agent that `agentId` names; surrounding blanks are forgiven. Rejects with `unknown_agent`. */
export async function findAgent(
  client: OpenClient,
  call: Call,
  parent: ParentAddress,
  agentId: unknown,
): Promise<FoundAgent> {
  const id = AgentId.safeParse(typeof agentId === "string" ? agentId.trim() : agentId);
  if (!id.success) throw unknownAgent(agentId);
  const uid = await call.read(() => client.store.uidOf(parent, id.data));
  if (uid === undefined) throw unknownAgent(agentId);
  return { address: { ...parent, uid }, agentId: id.data };
}

/**
 * Sends a message: first the deadline hint, then the verb, then the wake. Rejects with `agent_ended`, `unknown_agent`,
 * `conflict` (message id used with another text), `inbox_full`, `invalid_config` (a Redis that will not do in production),
 * `redis_unavailable`, `outcome_unknown`.
 */
export async function sendMessage(
  client: OpenClient,
  call: Call,
  { address, agentId }: FoundAgent,
  message: { text: string; messageId: string },
): Promise<SendReceipt> {
  const { store, deadlines } = client;
  const { text, messageId } = message;
  await client.admit(call);
  await call.read(() => deadlines.touch(address, store.timing.lookMs));
  const answer = await call.write({ what: "the sending", key: { message_id: messageId } }, () =>
    store.send(address, { v: 1, message_id: messageId, text }, digestOf(text)),
  );
  const receipt = (status: SendReceipt["status"], run: string): SendReceipt => ({
    status,
    agent_id: agentId,
    run: Number(run),
    message_id: messageId,
  });
  switch (answer.status) {
    case "delivered":
      return receipt("delivered", answer.run);
    case "same":
      if (answer.agent_status !== "queued") return receipt("delivered", answer.run);
      // The first try may have ended before its wake: a second one is harmless.
      await wakeUp(client, call, { address, agentId }, answer.wake);
      return receipt("queued", answer.run);
    case "queued":
      await wakeUp(client, call, { address, agentId }, answer.wake);
      return receipt("queued", answer.run);
    default:
      throw sendRefusal(answer, agentId, messageId);
  }
}

function sendRefusal(
  answer: Extract<Answer<"send">, { status: "unknown" | "ended" | "conflict" | "inbox_full" }>,
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
        `Sub-agent "${agentId}" has ${answer.messages} unread messages, or too long ones: wait until it has read some.`,
        { agent_id: agentId, unread: Number(answer.messages) },
      );
  }
}

/** Adds the job of a wake. What it is for stands in the record already: a sweeper makes good what fails here. */
export async function wakeUp(
  client: OpenClient,
  call: Call,
  { address, agentId }: FoundAgent,
  wake: string,
): Promise<void> {
  await call.hint(
    () => client.wakes.add(wakeOf(address, agentId, wake)),
    (error) => {
      client.logger.warn(
        { agent_id: agentId, problem: messageOf(error) },
        "No wake was queued; a sweeper will wake",
      );
    },
  );
}

/**
 * The parent's live agents, oldest first; those that have ended are left out, and those that a newer version made in a
 * form that this one cannot read.
 */
export async function listAgents(
  client: OpenClient,
  call: Call,
  parent: ParentAddress,
): Promise<AgentView[]> {
  const records = await call.read(() => client.store.liveRecords(parent));
  return records
    .filter((record) => record.status !== "ended")
    .sort((a, b) => a.created_at - b.created_at || (a.agent_id < b.agent_id ? -1 : 1))
    .map(viewOf);
}

/** One agent, also an ended one as long as its record is kept. Rejects with `unknown_agent`. */
export async function getAgent(client: OpenClient, call: Call, found: FoundAgent): Promise<AgentView> {
  const record = await call.read(() => client.store.record(found.address));
  if (!record) throw unknownAgent(found.agentId);
  return viewOf(record);
}

/** Ends an agent at once. Rejects with `unknown_agent`, `redis_unavailable` or `outcome_unknown`. */
export async function destroyAgent(
  client: OpenClient,
  call: Call,
  { address, agentId }: FoundAgent,
): Promise<DestroyReceipt> {
  let repeats = false;
  const answer = await call.write({ what: "the destroying", key: { agent_id: agentId } }, (repeated) => {
    repeats = repeated;
    return client.store.settle(address, {
      by: { authority: "parent" },
      target: "ended",
      endedReason: "destroyed",
      status: "cancelled",
      stopReason: "destroyed",
    });
  });
  if (answer.status === "settled")
    return { status: "destroyed", agent_id: agentId, ended_reason: "destroyed" };
  if (answer.status !== "same") throw unknownAgent(agentId);
  const reason = answer.ended_reason as EndedReason;
  // Destroyed, and we had asked before: that was us, and only the answer was lost.
  const ours = repeats && reason === "destroyed";
  return { status: ours ? "destroyed" : "already_ended", agent_id: agentId, ended_reason: reason };
}

/** Asks for a graceful end: first the deadline hint, then the verb, then the wake where there is one. Rejects with `unknown_agent`, `redis_unavailable` or `outcome_unknown`. */
export async function finishAgent(
  client: OpenClient,
  call: Call,
  { address, agentId }: FoundAgent,
): Promise<FinishReceipt> {
  const { store, deadlines } = client;
  await call.read(() => deadlines.touch(address, store.timing.lookMs));
  const answer = await call.write({ what: "the finishing", key: { agent_id: agentId } }, () =>
    store.finish(address),
  );
  switch (answer.status) {
    case "finishing":
      // A run that waited for an answer is queued for it; for one that was queued before, a second wake is harmless.
      if (answer.wake !== "") await wakeUp(client, call, { address, agentId }, answer.wake);
      return { status: "finishing", agent_id: agentId, run: Number(answer.run) };
    case "idle":
      return { status: "idle", agent_id: agentId };
    case "ended":
      return { status: "already_ended", agent_id: agentId, ended_reason: answer.reason as EndedReason };
    case "unknown":
      throw unknownAgent(agentId);
  }
}

/** The whole text of a reply whose summary was cut; undefined where it was not, or is no longer kept. */
export async function readFullText(
  client: OpenClient,
  call: Call,
  parent: ParentAddress,
  replyId: string,
): Promise<string | undefined> {
  if (!REPLY_ID.test(replyId)) return undefined;
  return call.read(() => client.store.fullText(parent, replyId));
}
