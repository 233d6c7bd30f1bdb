/** The rules' view of a request: its open requests, the tool results so far, the tools and directories offered. Pure. */
import { systemText } from "./cache.ts";
import { joinTurns, type Turn } from "./validation.ts";
import { isText, isToolResult, isToolUse, type MessagesRequest } from "./wire.ts";

/** A tool call that a rule requests. */
export interface ToolCall {
  name: string;
  input: Record<string, unknown>;
}

/** A completed tool call with its result as text. */
export interface Step extends ToolCall {
  output: string;
  failed: boolean;
}

/** The rules' view of one request. */
export interface Conversation {
  /** The user's messages without an answer yet, oldest first. Never empty. */
  requests: readonly string[];
  /** Tool calls since the first of them, with their results. */
  steps: readonly Step[];
  /** Result text of the newest tool call, `""` without one. */
  lastToolResult: string;
  /** Names of the tools that may be called now; empty in the final call. */
  offered: ReadonlySet<string>;
  /** True if no tool may be called and the request asks for the findings so far. */
  finalCall: boolean;
  /** Directories that the operator opened, from the system prompt. */
  openDirectories: readonly string[];
}

const FINAL_CALL =
  /\b(?:do not|don't|must not|cannot|without) (?:call|use|calling|using) any (?:more |further )?tools?\b|\bhand back\b/i;
const OPEN_DIRECTORIES = /^\s*open director(?:y|ies):\s*(.+)$/gim;

/** Derives the view from a request. `isKnown` returns true if a rule answers a text. */
export function readConversation(request: MessagesRequest, isKnown: (text: string) => boolean): Conversation {
  const turns = joinTurns(request.messages);
  const steps = readSteps(turns);
  const newest = turns.findLast((turn) => turn.role === "user");
  const told = newest?.blocks.some((block) => isText(block) && FINAL_CALL.test(block.text)) === true;
  const finalCall = request.tool_choice?.type === "none" || told;
  return {
    ...readOpen(turns, steps, isKnown),
    lastToolResult: [...steps.values()].flat().at(-1)?.output ?? "",
    offered: new Set(finalCall ? [] : (request.tools ?? []).map((tool) => tool.name)),
    finalCall,
    openDirectories: readOpenDirectories(systemText(request)),
  };
}

/** Returns the steps by the position of the turn with their results. */
function readSteps(turns: readonly Turn[]): Map<number, Step[]> {
  const calls = new Map(
    turns.flatMap((turn) => turn.blocks.filter(isToolUse)).map((call) => [call.id, call] as const),
  );
  return new Map(
    turns.map((turn, position) => [
      position,
      turn.blocks.filter(isToolResult).map((result) => {
        const call = calls.get(result.tool_use_id);
        return {
          name: call?.name ?? "",
          input: call?.input ?? {},
          output: resultText(result.content),
          failed: result.is_error === true,
        };
      }),
    ]),
  );
}

function resultText(content: string | { text?: string | undefined }[] | undefined): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((block) => block.text ?? "").join("\n");
}

/**
 * Returns the open requests and steps since the model last ended a turn itself. Each text of a user turn is a request. A text
 * beside tool results is a request only if a rule knows it. The order to make the final call is no request.
 */
function readOpen(
  turns: readonly Turn[],
  stepsAt: ReadonlyMap<number, Step[]>,
  isKnown: (text: string) => boolean,
): Pick<Conversation, "requests" | "steps"> {
  const ended = turns.findLastIndex(({ role, blocks }) => role === "assistant" && !blocks.some(isToolUse));
  const requests: string[] = [];
  const steps: Step[] = [];
  turns.forEach((turn, position) => {
    if (turn.role !== "user" || position <= ended) return;
    const results = stepsAt.get(position) ?? [];
    for (const result of results) steps.push(result);
    const texts = textsOf(turn).filter((text) => !FINAL_CALL.test(text));
    for (const text of results.length > 0 ? texts.filter(isKnown) : texts) requests.push(text);
  });
  const everything = turns.filter(({ role }) => role === "user").flatMap(textsOf);
  return { requests: requests.length > 0 ? requests : [everything.join("\n")], steps };
}

function textsOf(turn: Turn): string[] {
  return turn.blocks
    .filter(isText)
    .map((block) => block.text.trim())
    .filter((text) => text !== "");
}

function readOpenDirectories(system: string): string[] {
  const listed = [...system.matchAll(OPEN_DIRECTORIES)].flatMap((line) => (line[1] ?? "").split(","));
  return listed.flatMap((item) => /^\s*[`"']?(\/[^\s`"'()]+)/.exec(item)?.[1] ?? []);
}
