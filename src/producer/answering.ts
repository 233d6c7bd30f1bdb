/** Answering what a sub-agent asks: which question is meant, the answer into the log, the agent woken. */
import { SubagentError } from "../shared/errors.ts";
import type { AgentStatus } from "../shared/protocol/agent.ts";
import type { Call } from "./call.ts";
import type { OpenClient } from "./client.ts";
import { agentEnded, type FoundAgent, unknownAgent, wakeUp } from "./managing.ts";

/** What answer answers. `agent_status`: `queued` = it goes on; `waiting` = it has asked more than this. */
export interface AnswerReceipt {
  status: "answered";
  agent_id: string;
  question_id: string;
  agent_status: AgentStatus;
}

/** The oldest open question of an agent, if it waits for one. Rejects with `unknown_agent`, `agent_ended`. */
export async function oldestQuestion(
  client: OpenClient,
  call: Call,
  { address, agentId }: FoundAgent,
): Promise<string | undefined> {
  const record = await call.read(() => client.store.record(address));
  if (!record) throw unknownAgent(agentId);
  if (record.status === "ended") throw agentEnded(agentId, record.ended_reason ?? "completed");
  return record.status === "waiting" ? record.questions?.[0]?.question_id : undefined;
}

/**
 * Answers a question, the oldest open one unless it is named: first the deadline hint, then the verb, then the wake. The
 * same answer again is no mistake. Rejects with `unknown_question`, `already_answered`, `agent_ended`, `unknown_agent`,
 * `redis_unavailable`, `outcome_unknown`.
 */
export async function answerQuestion(
  client: OpenClient,
  call: Call,
  found: FoundAgent,
  { text, questionId: named }: { text: string; questionId?: string | undefined },
): Promise<AnswerReceipt> {
  const { store, deadlines } = client;
  const { address, agentId } = found;
  const questionId = named ?? (await oldestQuestion(client, call, found));
  if (questionId === undefined) throw unknownQuestion(agentId, undefined);
  await call.read(() => deadlines.touch(address, store.timing.lookMs));
  const answer = await call.write({ what: "the answering", key: { question_id: questionId } }, () =>
    store.answer(address, { by: "parent", questionId, text }),
  );
  const receipt = (agent_status: string): AnswerReceipt => ({
    status: "answered",
    agent_id: agentId,
    question_id: questionId,
    agent_status: agent_status as AgentStatus,
  });
  switch (answer.status) {
    case "waiting":
      return receipt("waiting");
    case "same":
      // The first try may have ended before its wake: a second one is harmless.
      if (answer.agent_status === "queued") await wakeUp(client, call, found, answer.wake);
      return receipt(answer.agent_status);
    case "queued":
      await wakeUp(client, call, found, answer.wake);
      return receipt("queued");
    case "answered":
      throw new SubagentError(
        "already_answered",
        `Question "${questionId}" of "${agentId}" has another answer already, from its parent or by default: send it a message instead.`,
        { agent_id: agentId, question_id: questionId },
      );
    case "ended":
      throw agentEnded(agentId, answer.reason);
    case "unknown":
      throw unknownAgent(agentId);
    default:
      throw unknownQuestion(agentId, questionId);
  }
}

function unknownQuestion(agentId: string, questionId: string | undefined): SubagentError {
  const [which, other] =
    questionId === undefined
      ? ["no open question", ""]
      : [`no open question ${JSON.stringify(questionId)}`, "leave its id away to answer the oldest one, or "];
  return new SubagentError(
    "unknown_question",
    `Sub-agent "${agentId}" has ${which}: ${other}send it a message instead.`,
    {
      agent_id: agentId,
      ...(questionId !== undefined && { question_id: questionId }),
    },
  );
}
