/** What putting questions to the parent leaves in the log and in the counters of the run. Pure. */
import { entryKey } from "../../shared/protocol/log.ts";
import { ASK_TOOL, isPermissionQuestion, type OpenQuestion } from "../../shared/protocol/message.ts";
import type { ReplyBody } from "../../shared/protocol/reply.ts";
import { type NewEntry, newStarted } from "../loop/log.ts";

/** The mark of a question that is put: that of the call which puts it. */
export function markOf(questionId: string): NewEntry {
  const { key, ...mark } = newStarted(0, "", ASK_TOOL);
  return { ...mark, key: entryKey.startedOf(questionId) };
}

/** `body` with these questions counted as calls; one about a permission is none: the call it is about counts when it begins. */
export function withQuestions(body: ReplyBody, questions: readonly OpenQuestion[]): ReplyBody {
  const put = questions.filter((question) => !isPermissionQuestion(question)).length;
  if (put === 0) return body;
  const asked = (body.tools_called[ASK_TOOL] ?? 0) + put;
  return { ...body, tools_called: { ...body.tools_called, [ASK_TOOL]: asked } };
}
