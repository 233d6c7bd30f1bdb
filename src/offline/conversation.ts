/** How the rules see a request: what is asked, what was already looked up, which tools may be used, where to look. Pure. */
import { systemText } from "./fingerprint.ts";
import { joinTurns, type Turn } from "./pairing.ts";
import { isText, isToolResult, isToolUse, type MessagesRequest } from "./wire.ts";

/** A tool call that a rule wants made. */
export interface ToolCall {
  name: string;
  input: Record<string, unknown>;
}

/** A tool call that was made, with its result as text. */
export interface Step extends ToolCall {
  output: string;
  failed: boolean;
}

/** A request of the user with everything that was looked up for it so far. */
interface Ask {
  text: string;
  steps: readonly Step[];
}

/** The view of one request. */
export interface Conversation {
  /** Requests of the user, oldest first; the newest is the one to answer. Never empty. */
  asks: readonly [Ask, ...Ask[]];
  /** Result text of the newest tool call, `""` without one. */
  lastToolResult: string;
  /** Names of the tools that may be called now; empty when the answer has to be handed back. */
  offered: ReadonlySet<string>;
  /** True when no tool may be called and the findings so far are asked for. */
  handBack: boolean;
  /** Directories the operator opened, as the system prompt names them. */
  openDirectories: readonly string[];
}

const HAND_BACK =
  /\b(?:do not|don't|must not|cannot|without) (?:call|use|calling|using) any (?:more |further )?tools?\b|\bhand back\b/i;
const OPEN_DIRECTORIES = /^\s*open director(?:y|ies):\s*(.+)$/gim;

/** Reads the view out of a request. `isSpecific` says whether a text alone would be answered by a rule of its own. */
export function readConversation(
  request: MessagesRequest,
  isSpecific: (text: string) => boolean,
): Conversation {
  const turns = joinTurns(request.messages);
  const steps = readSteps(turns);
  const newest = turns.findLast((turn) => turn.role === "user");
  const told = newest?.blocks.some((block) => isText(block) && HAND_BACK.test(block.text)) === true;
  const handBack = request.tool_choice?.type === "none" || told;
  return {
    asks: readAsks(turns, steps, handBack, isSpecific),
    lastToolResult: [...steps.values()].flat().at(-1)?.output ?? "",
    offered: new Set(handBack ? [] : (request.tools ?? []).map((tool) => tool.name)),
    handBack,
    openDirectories: readOpenDirectories(systemText(request)),
  };
}

/** Steps by the position of the turn that holds their results. */
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
 * A user turn opens a new ask when it speaks. Text that comes along with tool results is a remark on the work under way,
 * unless it is a request that some rule knows; an order to hand back is never a request.
 */
function readAsks(
  turns: readonly Turn[],
  steps: ReadonlyMap<number, Step[]>,
  handBack: boolean,
  isSpecific: (text: string) => boolean,
): [Ask, ...Ask[]] {
  const asks: { text: string; steps: Step[] }[] = [];
  turns.forEach((turn, position) => {
    if (turn.role !== "user") return;
    const results = steps.get(position) ?? [];
    asks.at(-1)?.steps.push(...results);
    const text = spoken(turn, handBack);
    if (text === "" || (results.length > 0 && !isSpecific(text))) return;
    asks.push({ text, steps: asks.length === 0 ? results : [] });
  });
  const [first, ...rest] = asks;
  if (first !== undefined) return [first, ...rest];
  const everything = turns.filter((turn) => turn.role === "user").map((turn) => spoken(turn, false));
  return [{ text: everything.join("\n"), steps: [...steps.values()].flat() }];
}

function spoken(turn: Turn, dropOrders: boolean): string {
  return turn.blocks
    .filter(isText)
    .map((block) => block.text.trim())
    .filter((text) => text !== "" && !(dropOrders && HAND_BACK.test(text)))
    .join("\n");
}

function readOpenDirectories(system: string): string[] {
  const listed = [...system.matchAll(OPEN_DIRECTORIES)].flatMap((line) => (line[1] ?? "").split(","));
  return listed.flatMap((item) => /^\s*[`"']?(\/[^\s`"'()]+)/.exec(item)?.[1] ?? []);
}
