/**
 * A sub-agent's text in the form that a parent's model reads.
 *
 * 1. Status, stop reason and counters come from the runtime. A sub-agent's text cannot imitate them: a forwarded text is
 *    inside a fence with a random boundary, and the beginnings of our delimiters and notes are broken in it.
 * 2. A tool result has at most {@link MAX_TEXT_CHARS} code points, notes included; the text of a forwarded entry has at most as
 *    many. A longer text is cut before it is quoted, so that only its beginning is gone through.
 */
import type { AgentStatus } from "../shared/protocol/agent.ts";
import { type ChannelEntry, type Question, type Reply, unreadNote } from "../shared/protocol/reply.ts";
import { fenced, quoted } from "./text-boundary.ts";

/** Maximum length of a `task` or `agent` result, and of the text of a forwarded entry, in code points. */
export const MAX_TEXT_CHARS = 5_000;

const CUT = "\n[… cut …]";
const OUTPUT_CUT = "\n[… cut: the reply's output field has the rest …]";

/**
 * Returns a channel entry for a user message: a head line by the runtime, the text as data, a closing delimiter. A reply's text has
 * the runtime's notes around it, as the result of a tool has.
 * `closedWith`: the present status of the agent of a question that takes no answer any more; undefined: it is open.
 */
export function asData(entry: ChannelEntry, closedWith?: AgentStatus): string {
  const from = `agent_id="${entry.agent_id}" run="${entry.run}"`;
  if (entry.kind === "message") {
    return fenced("message", from, shorten(entry.text));
  }
  if (entry.kind === "question") {
    if (closedWith === undefined) return asQuestion(entry);
    return fenced("question", `${from} status="closed" agent_status="${closedWith}"`, shorten(entry.text));
  }
  const { status, stop_reason, agent_status, turns, tokens } = entry;
  const facts = `status="${status}" stop_reason="${stop_reason}" agent_status="${agent_status}" turns="${turns}" tokens="${tokens}"`;
  return fenced("reply", `${from} ${facts}`, saidIn(entry), {
    ...(entry.error !== undefined && { before: noteOn(entry) }),
    after: notesAfter(entry),
  });
}

/** Returns an open question for a user message; the head line says how to answer it. */
export function asQuestion({
  agent_id,
  text,
  answer_by,
}: Pick<Question, "agent_id" | "text" | "answer_by">): string {
  const head = `agent_id="${agent_id}" answer_by="${answer_by}" answer_with="send_agent_message"`;
  return fenced("question", head, shorten(text));
}

/** Returns a reply as a tool result: its text, a note if the run did not succeed, and one about unread messages and unknown tools. */
export function asToolResult(reply: Reply): string {
  const tail = notesAfter(reply);
  const head = noteOn(reply);
  const room = MAX_TEXT_CHARS - lengthOf(head) - lengthOf(tail);
  return `${head}${quoted(saidIn(reply, room))}${tail}`;
}

/** Returns the output as compact JSON, or the summary if there is no output; at most `maxChars` code points of it. */
function saidIn({ output, summary }: Reply, maxChars = MAX_TEXT_CHARS): string {
  return output === undefined
    ? shorten(summary, maxChars)
    : shorten(JSON.stringify(output), maxChars, OUTPUT_CUT);
}

/** Returns what the runtime says behind a reply's text: messages that came too late, tools that were left out. */
export function notesAfter({
  unknown_tools: names = [],
  undelivered,
}: Pick<Reply, "unknown_tools" | "undelivered">): string {
  const unread = unreadNote(undelivered);
  const unknown = names.length > 0 ? `Unknown tools were left out: ${names.join(", ")}.` : "";
  const notes = [unread, unknown].filter(Boolean).join(" ");
  return notes === "" ? "" : `\n\n[sub-agent: ${quoted(shorten(notes, MAX_TEXT_CHARS / 5))}]`;
}

function noteOn({ status, stop_reason, error }: Reply): string {
  if (status === "succeeded") return "";
  const why = error === undefined ? "" : `: ${shownError(error)}`;
  return `[sub-agent ${status}, ${stop_reason}${why}]\n`;
}

/** Returns the error sentence of a run for a model: short, and no word of the runtime in what others wrote. */
export function shownError(error: string): string {
  return quoted(shorten(error, MAX_TEXT_CHARS / 5));
}

/** Cuts `text` to at most `maxChars` code points, including `mark` at the cut. */
export function shorten(text: string, maxChars = MAX_TEXT_CHARS, mark = CUT): string {
  // A code point has at most two code units, so the rest of a longer text is cut in any case.
  const points = [...text.slice(0, 2 * maxChars + 1)];
  if (points.length <= maxChars) return text;
  return points.slice(0, maxChars - lengthOf(mark)).join("") + mark;
}

function lengthOf(text: string): number {
  return [...text].length;
}
