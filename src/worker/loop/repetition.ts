/** Loop detection: the same tool call with the same input, again and again. */
import type { ToolCall, Turn } from "./run-view.ts";

/** After this many identical consecutive calls the model is told. */
export const REPETITION_NOTICE = 3;
/** This many identical consecutive calls end the run; the last one is not executed any more. */
export const REPETITION_LIMIT = 5;

/** For each call of the run, in order, how many identical ones in a row it completes. */
export function repetitions(turns: readonly Turn[]): Map<ToolCall, number> {
  const counts = new Map<ToolCall, number>();
  let previous = "";
  let count = 0;
  for (const turn of turns) {
    for (const call of turn.calls) {
      const signature = `${call.name} ${canonical(call.input)}`;
      count = signature === previous ? count + 1 : 1;
      previous = signature;
      counts.set(call, count);
    }
  }
  return counts;
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    part !== null && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
