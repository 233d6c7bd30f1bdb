/**
 * How an event of a run is spelled in a line of its agent's timeline. The four kinds that every turn has are lists: a mark for
 * the kind, the turn, then the values in the order below; they are written with every commit. All others are objects. Pure.
 */
import type { ProgressEvent } from "./reply.ts";

type Specific<T> = T extends unknown ? Omit<T, "v" | "agent_id" | "name" | "run"> : never;
/** An event of a run; the verb that takes it along adds what names the run. */
export type RunEvent = Specific<ProgressEvent>;

/** Mark → kind of event, and the names of its values behind the turn. */
const LISTED: ReadonlyMap<unknown, readonly [type: RunEvent["type"], ...names: string[]]> = new Map([
  ["t", ["turn_started"]],
  ["f", ["turn_finished", "tokens", "cost_usd"]],
  ["s", ["tool_started", "tool_use_id", "tool"]],
  ["e", ["tool_finished", "tool_use_id", "tool", "is_error", "duration_ms"]],
]);

/** `event` as a line holds it. */
export function eventText(event: RunEvent): string {
  const { turn } = event;
  switch (event.type) {
    case "turn_started":
      return `["t",${turn}]`;
    case "turn_finished":
      return `["f",${turn},${event.tokens},${event.cost_usd}]`;
    case "tool_started":
      return `["s",${turn},${JSON.stringify(event.tool_use_id)},${JSON.stringify(event.tool)}]`;
    case "tool_finished":
      return `["e",${turn},${JSON.stringify(event.tool_use_id)},${JSON.stringify(event.tool)},${event.is_error},${event.duration_ms}]`;
    default:
      return JSON.stringify(event);
  }
}

/** The members of an event that a line holds, unchecked; undefined where this version does not know the spelling. */
export function eventMembers(stored: unknown): object | undefined {
  if (!Array.isArray(stored)) return typeof stored === "object" && stored !== null ? stored : undefined;
  const [mark, turn, ...values]: readonly unknown[] = stored;
  const [type, ...names] = LISTED.get(mark) ?? [];
  if (type === undefined) return undefined;
  return { type, turn, ...Object.fromEntries(names.map((name, i) => [name, values[i]])) };
}
