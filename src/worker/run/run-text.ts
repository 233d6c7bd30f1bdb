/** Where the last text of a run is: in its record, or only in a log entry; then the progress names the number of its message. */
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import type { ReplyBody } from "../../shared/protocol/reply.ts";
import { type RunRules, saidIn, wholeTextOf } from "../loop/reply-body.ts";
import type { RunState } from "../loop/state.ts";

/** What the record has of it: the summary, and the whole text where that had to be cut. */
export interface TextInRecord {
  summary: string | undefined;
  whole: string;
}

const ONLY_IN_LOG: TextInRecord = { summary: undefined, whole: "" };

/** What a claimed record has; undefined where it does not tell. */
export function textIn({ progress, said }: AgentRecord): TextInRecord | undefined {
  if (!progress || said !== undefined) return ONLY_IN_LOG;
  return progress.truncated ? undefined : { summary: progress.summary, whole: "" };
}

/**
 * What the record shall have of the text of `body`; `said`: the message that the progress names, 0 for none. The last commit of
 * a run has its text in the record, which outlives the log.
 */
export function textFor(body: ReplyBody, state: RunState, rules: RunRules, isLast: boolean) {
  const said = isLast ? 0 : saidIn(body, state);
  const text = said > 0 ? ONLY_IN_LOG : { summary: body.summary, whole: wholeTextOf(body, state, rules) };
  return { said, text };
}

/** What a verb is told that makes `text` out of what the record has. */
export function changeTo(text: TextInRecord, held: TextInRecord | undefined) {
  const { summary, whole } = text;
  if (held?.summary === summary && held?.whole === whole) return undefined;
  return { summary, whole_text: whole === "" ? undefined : whole, forgets_summary: summary === undefined };
}
