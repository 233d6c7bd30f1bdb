/** What a run has come to, as others may see it. Pure. */
import { ASK_TOOL, isPermissionQuestion, type OpenQuestion } from "../../shared/protocol/message.ts";
import type { ReplyBody } from "../../shared/protocol/reply.ts";
import { withoutSecrets } from "../../shared/secrets.ts";
import type { Rules } from "../loop/reply-body.ts";
import type { RunState } from "../loop/state.ts";

/** The text of the summary where `body` had to cut it; "" else. */
export function wholeTextOf(body: ReplyBody, { tally }: RunState, { outputSchema }: Rules): string {
  return body.truncated ? withoutSecrets(outputSchema ? tally.text : tally.report) : "";
}

/** What a run has come to, without the secrets of this process: a model may have read them somewhere else. */
export function shownBody(body: ReplyBody): ReplyBody {
  const summary = withoutSecrets(body.summary);
  const shown = summary === body.summary ? body : { ...body, summary };
  if (shown.output === undefined) return shown;
  const json = JSON.stringify(shown.output);
  const clean = withoutSecrets(json);
  const output: unknown = clean === json ? shown.output : JSON.parse(clean);
  return { ...shown, output };
}

/** `body` with these questions counted as calls; one about a permission is none: the call it is about counts when it begins. */
export function withQuestions(body: ReplyBody, questions: readonly OpenQuestion[]): ReplyBody {
  const put = questions.filter((question) => !isPermissionQuestion(question)).length;
  if (put === 0) return body;
  const asked = (body.tools_called[ASK_TOOL] ?? 0) + put;
  return { ...body, tools_called: { ...body.tools_called, [ASK_TOOL]: asked } };
}
