/**
 * Plays scripts: finds the script of a conversation and the turn to play.
 *
 * Owns the scripts, and the number of played failures of each turn.
 * `rulebook.ts` answers conversations that no script matches.
 *
 * Invariants:
 * 1. The turn to play depends only on the request (its number of assistant messages, and `tool_choice`).
 * 2. Failures are counted per conversation and turn; setting a scenario resets the counts; at most `MAX_COUNTERS` are kept.
 * 3. A request with `tool_choice: none` never gets a tool call.
 */

import type { AnswerPlan, DraftBlock, Plan } from "./answer.ts";
import { type Fingerprint, messageText, systemText } from "./cache.ts";
import type { Conversation } from "./conversation.ts";
import { errorTypeOf } from "./exchange.ts";
import type { Failure, Script, ScriptedError, ScriptedTurn } from "./scenario.ts";
import type { MessagesRequest } from "./wire.ts";

/** A request with its fingerprint and the rules' view of it. */
export interface Call {
  request: MessagesRequest;
  fingerprint: Fingerprint;
  conversation: Conversation;
}

/** Plays the scripts that are set. */
export interface ScriptPlayer {
  setScripts(scripts: readonly Script[]): void;
  /** Returns the plan for a call; `undefined`: no script matches. `byRule` answers a final call if the script has no text. */
  play(call: Call, byRule: () => AnswerPlan): Plan | undefined;
}

const MAX_COUNTERS = 50_000;

/** Creates a player without scripts. */
export function createScriptPlayer(): ScriptPlayer {
  let scripts: readonly Script[] = [];
  const playedFailures = new Map<string, number>();

  const takeFailure = (turn: ScriptedTurn, { fingerprint }: Call): Failure | undefined => {
    if (turn.failures === undefined) return undefined;
    const key = `${fingerprint.conversation} ${fingerprint.turn}`;
    const played = playedFailures.get(key) ?? 0;
    playedFailures.set(key, played + 1);
    const oldest = playedFailures.keys().next();
    if (playedFailures.size > MAX_COUNTERS && !oldest.done) playedFailures.delete(oldest.value);
    return turn.failures[played];
  };

  return {
    setScripts(next) {
      scripts = next;
      playedFailures.clear();
    },
    play(call, byRule) {
      const script = scripts.find((candidate) => matches(candidate, call.request));
      if (script === undefined) return undefined;
      const tooLong = overWindow(script, call);
      if (tooLong) return tooLong;
      const turn = dueTurn(script, call);
      if (turn === undefined) return exhausted(script, call);
      const { latencyMs } = turn;
      const failure = takeFailure(turn, call);
      if (failure !== undefined && "reset" in failure) return { kind: "reset", latencyMs };
      if (failure !== undefined && "status" in failure)
        return { kind: "error", error: toError(failure), latencyMs };
      if (turn.error !== undefined) return { kind: "error", error: toError(turn.error), latencyMs };
      const plan = toAnswer(turn, call, byRule);
      return failure === undefined ? plan : { ...plan, failure: failure.stream };
    },
  };
}

function matches({ match }: Script, request: MessagesRequest): boolean {
  const firstUser = request.messages.find((message) => message.role === "user");
  const fits = (text: string, wanted: NonNullable<Script["match"]>["user"]): boolean => {
    if (wanted === undefined) return true;
    return typeof wanted === "string" ? text.includes(wanted) : new RegExp(wanted.regex, "u").test(text);
  };
  return (
    fits(firstUser === undefined ? "" : messageText(firstUser), match?.user) &&
    fits(systemText(request), match?.system)
  );
}

function overWindow({ windowTokens: most }: Script, { fingerprint }: Call): Plan | undefined {
  const { inputTokens } = fingerprint;
  if (most === undefined || inputTokens <= most) return undefined;
  const message = `prompt is too long: ${inputTokens} tokens > ${most} maximum`;
  return { kind: "error", error: toError({ status: 400, message }) };
}

function dueTurn(script: Script, { request, fingerprint }: Call): ScriptedTurn | undefined {
  if (request.tool_choice?.type === "none" && script.hand_back !== undefined) return script.hand_back;
  return script.turns[fingerprint.turn] ?? (script.repeat === true ? script.turns.at(-1) : undefined);
}

function exhausted(script: Script, { fingerprint }: Call): Plan {
  const message = `The scenario has ${script.turns.length} turns and was asked for turn ${fingerprint.turn + 1}; set \`repeat\` or add turns.`;
  return { kind: "error", error: toError({ status: 400, message }) };
}

function toError(scripted: ScriptedError): Extract<Plan, { kind: "error" }>["error"] {
  const type = scripted.type ?? errorTypeOf(scripted.status);
  const headers = scripted.headers === undefined ? {} : { headers: scripted.headers };
  return { status: scripted.status, type, message: scripted.message ?? `Scripted ${type}.`, ...headers };
}

function toAnswer(turn: ScriptedTurn, call: Call, byRule: () => AnswerPlan): AnswerPlan {
  const options = { latencyMs: turn.latencyMs, failure: turn.stream, usage: turn.usage };
  const filled = turn.content.map((block): DraftBlock => fillRecord(block, call));
  const forbidden =
    call.request.tool_choice?.type === "none" && filled.some((block) => block.type === "tool_use");
  if (!forbidden)
    return { kind: "answer", content: filled, stopReason: turn.stop_reason, bounded: false, ...options };
  const words = filled.filter((block) => block.type !== "tool_use");
  const content = words.some((block) => block.type === "text") ? words : byRule().content;
  return { kind: "answer", content, bounded: false, ...options };
}

function fillRecord<T extends object>(record: T, call: Call): T {
  return Object.assign(
    {},
    record,
    Object.fromEntries(Object.entries(record).map(([key, value]) => [key, fill(value, call)])),
  );
}

/** Replaces the placeholders in every string of a JSON value. */
function fill(value: unknown, call: Call): unknown {
  if (typeof value === "string") {
    return value.replace(/\{\{(last_tool_result|user|turn)\}\}/g, (_, name: string) =>
      placeholder(name, call),
    );
  }
  if (Array.isArray(value)) return value.map((item) => fill(item, call));
  return typeof value === "object" && value !== null ? fillRecord(value, call) : value;
}

function placeholder(name: string, { conversation, fingerprint }: Call): string {
  if (name === "turn") return String(fingerprint.turn);
  return name === "user" ? (conversation.requests.at(-1) ?? "") : conversation.lastToolResult;
}
