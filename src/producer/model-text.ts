/**
 * What a sub-agent said, as a parent's model gets to read it.
 *
 * 1. Status, stop reason and counters come from the runtime. Nothing a sub-agent writes can look like them: a forwarded text
 *    stands behind a fence whose boundary is random, and the beginnings of our delimiters and notes are broken in it.
 * 2. What a tool returns is at most {@link MAX_TEXT_CHARS} code points, notes included.
 */
import type { ChannelEntry, Question, Reply } from "../shared/protocol/reply.ts";
import { fenced, quoted } from "./text-boundary.ts";

/** The longest text of a `task` or `agent` result, in code points. */
export const MAX_TEXT_CHARS = 5_000;

const CUT = "\n[… cut …]";

/** One entry of the channel for a user message: a head line by the runtime, the text as data, a closing delimiter. */
export function asData(entry: ChannelEntry): string {
  const from = `agent_id="${entry.agent_id}" run="${entry.run}"`;
  if (entry.kind === "message") {
    return fenced("message", from, entry.text);
  }
  if (entry.kind === "question") return asQuestion(entry);
  const { status, stop_reason, agent_status, turns, tokens } = entry;
  const facts = `status="${status}" stop_reason="${stop_reason}" agent_status="${agent_status}" turns="${turns}" tokens="${tokens}"`;
  return fenced("reply", `${from} ${facts}`, saidIn(entry));
}

/** An open question for a user message; the head line says how to answer it. */
export function asQuestion({
  agent_id,
  text,
  answer_by,
}: Pick<Question, "agent_id" | "text" | "answer_by">): string {
  const head = `agent_id="${agent_id}" answer_by="${answer_by}" answer_with="send_agent_message"`;
  return fenced("question", head, text);
}

/** A reply as the result of the tool that waited for it: its summary, and notes where something is to be said about it. */
export function asToolResult(reply: Reply, unknownTools: readonly string[] = []): string {
  const unknown = unknownTools.length > 0 && `Unknown tools were left out: ${unknownTools.join(", ")}.`;
  const tail = unknown ? `\n\n[sub-agent: ${shorten(quoted(unknown), MAX_TEXT_CHARS / 5)}]` : "";
  const head = noteOn(reply);
  const room = MAX_TEXT_CHARS - lengthOf(head) - lengthOf(tail);
  return `${head}${shorten(quoted(saidIn(reply)), room)}${tail}`;
}

/** The output as compact JSON, where one was asked for; else the summary. */
function saidIn({ output, summary }: Reply): string {
  return output === undefined ? summary : JSON.stringify(output);
}

function noteOn({ status, stop_reason, error }: Reply): string {
  if (status === "succeeded") return "";
  const why = error === undefined ? "" : `: ${shorten(quoted(error), MAX_TEXT_CHARS / 5)}`;
  return `[sub-agent ${status}, ${stop_reason}${why}]\n`;
}

/** `text` in at most `maxChars` code points, a mark included where it was cut. */
export function shorten(text: string, maxChars: number): string {
  const points = [...text];
  if (points.length <= maxChars) return text;
  return points.slice(0, maxChars - CUT.length).join("") + CUT;
}

function lengthOf(text: string): number {
  return [...text].length;
}
