/**
 * What a sub-agent said, as a parent's model gets to read it. Pure.
 *
 * 1. Status, stop reason and counters come from the runtime. Nothing a sub-agent writes can look like them: in its text
 *    the beginnings of our delimiters and notes are broken.
 * 2. What a tool returns is at most {@link MAX_TEXT_CHARS} code points, notes included.
 */
import type { ChannelEntry, Question, Reply } from "../shared/protocol/reply.ts";

/** The longest text of a `task` or `agent` result, in code points. */
export const MAX_TEXT_CHARS = 5_000;

const CUT = "\n[… cut …]";

/** `<sub_agent_…>` and `[sub-agent …]`, however spaced and spelled, as only the runtime may begin them. */
const OURS = /<(?=\s*\/?\s*sub_agent_)|\[(?=\s*sub-agent\b)/giu;

/** The text of a sub-agent with nothing in it that could pass for a word of the runtime. */
export function quoted(text: string): string {
  return text.replace(OURS, (mark) => (mark === "<" ? "&lt;" : "("));
}

/** One entry of the channel for a user message: a head line by the runtime, the text as data, a closing delimiter. */
export function asData(entry: ChannelEntry): string {
  const from = `agent_id="${entry.agent_id}" run="${entry.run}"`;
  if (entry.kind === "message") {
    return `<sub_agent_message ${from}>\n${quoted(entry.text)}\n</sub_agent_message>`;
  }
  if (entry.kind === "question") return asQuestion(entry);
  const { status, stop_reason, agent_status, turns, tokens } = entry;
  const facts = `status="${status}" stop_reason="${stop_reason}" agent_status="${agent_status}" turns="${turns}" tokens="${tokens}"`;
  return `<sub_agent_reply ${from} ${facts}>\n${quoted(entry.summary)}\n</sub_agent_reply>`;
}

/** An open question for a user message; the head line says how to answer it. */
export function asQuestion({
  agent_id,
  text,
  answer_by,
}: Pick<Question, "agent_id" | "text" | "answer_by">): string {
  const head = `agent_id="${agent_id}" answer_by="${answer_by}" answer_with="send_agent_message"`;
  return `<sub_agent_question ${head}>\n${quoted(text)}\n</sub_agent_question>`;
}

/** A reply as the result of the tool that waited for it: its summary, and notes where something is to be said about it. */
export function asToolResult(reply: Reply, unknownTools: readonly string[] = []): string {
  const unknown = unknownTools.length > 0 && `Unknown tools were left out: ${unknownTools.join(", ")}.`;
  const tail = unknown ? `\n\n[sub-agent: ${shorten(quoted(unknown), MAX_TEXT_CHARS / 5)}]` : "";
  const head = noteOn(reply);
  const room = MAX_TEXT_CHARS - lengthOf(head) - lengthOf(tail);
  return `${head}${shorten(quoted(reply.summary), room)}${tail}`;
}

function noteOn({ status, stop_reason, error }: Reply): string {
  if (status === "succeeded") return "";
  const why = error === undefined ? "" : `: ${shorten(quoted(error), MAX_TEXT_CHARS / 5)}`;
  return `[sub-agent ${status}, ${stop_reason}${why}]\n`;
}

function shorten(text: string, maxChars: number): string {
  const points = [...text];
  if (points.length <= maxChars) return text;
  return points.slice(0, maxChars - CUT.length).join("") + CUT;
}

function lengthOf(text: string): number {
  return [...text].length;
}
