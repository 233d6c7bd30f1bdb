/** Performs `ask`: asks the parent the questions that the hooks of this worker let through; the agent then waits without a holder. */

import { ANSWER_MS } from "../../shared/protocol/limits.ts";
import { entryKey } from "../../shared/protocol/log.ts";
import type { OpenQuestion } from "../../shared/protocol/message.ts";
import { withDeadlineHint } from "../../shared/redis/deadline-hint.ts";
import { withoutSecretsIn } from "../../shared/secrets.ts";
import type { AgentHooks } from "../hooks/hooks.ts";
import { newResult } from "../loop/log.ts";
import { questionOf, type Step } from "../loop/next.ts";
import type { RunContext, RunOutcome } from "./context.ts";
import { limitTools } from "./run-tools.ts";
import type { CommitOutcome, Session } from "./session.ts";

const NO_QUESTION = "The question was not asked: a hook made something of it that is no question.";

/** Asks the parent the questions. Undefined: the parent wants an end, or no question is left to ask. */
export async function askParent(
  context: RunContext,
  session: Session,
  { turn, questions }: Extract<Step, { do: "ask" }>,
): Promise<RunOutcome | "lease_over" | undefined> {
  const bought = await commitDue(session);
  if (bought !== "committed") return bought === "lease_over" ? "lease_over" : undefined;
  const { deadlines, logger } = context;
  const { address, record, equipment } = session;
  const { hooks } = equipment;
  const left = hooks ? await passHooks(context, session, hooks, questions) : questions;
  const refused = await commitDue(session);
  if (refused !== "committed") return refused === "lease_over" ? "lease_over" : undefined;
  if (left.length === 0) return undefined;
  const { answer_ms: answerMs = ANSWER_MS } = record.spec;
  const events = left.map(({ text }) => ({ type: "waiting", turn, question: text }) as const);
  const asked = await withDeadlineHint(
    () => deadlines.hint(address, answerMs),
    () => session.ask(left, answerMs, events),
    { logger, uid: address.uid },
  );
  if (asked === "lease_over") return "lease_over";
  if (asked === "finishing") return undefined;
  return { status: "released", reason: "question" };
}

async function commitDue(session: Session): Promise<CommitOutcome> {
  return session.isCommitDue ? session.commit() : "committed";
}

/**
 * Returns the questions that the hooks let through, as they changed them; adds the reason as the result of each other one.
 * Returns none if the run was stopped meanwhile: the next holder asks the hooks again.
 */
async function passHooks(
  context: RunContext,
  session: Session,
  hooks: AgentHooks,
  questions: readonly OpenQuestion[],
): Promise<OpenQuestion[]> {
  const { rules, lease, toolStop } = session;
  const { message = 0, calls = [] } = session.state.last ?? {};
  const callOf = new Map(calls.map((call) => [entryKey.call(message, call.id), call]));
  const limit = limitTools(context, session);
  const judged = await Promise.all(
    questions.map(async (question) => {
      const call = callOf.get(question.question_id);
      // A question about a permission is no call: the hooks see the call that it is about when that begins.
      if (!call) return { question };
      const { block, input } = await hooks.before(call, toolStop);
      if (block !== undefined) return { call, why: block };
      const { input: clean } = withoutSecretsIn({ input });
      const changed = questionOf({ ...call, input: clean }, message, rules);
      return changed ? { question: changed } : { call, why: NO_QUESTION };
    }),
  ).finally(() => limit.cancel());
  if (context.abandoned.aborted || !lease.isLive()) return [];
  const asked: OpenQuestion[] = [];
  for (const { question, call, why } of judged) {
    if (question) asked.push(question);
    else session.add([newResult(message, call.id, why, { isError: true, isDenied: true })]);
  }
  return asked;
}
