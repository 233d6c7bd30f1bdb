/** Loop detection: the same tool call with the same input, again and again. */
import type { ToolCall, Turn } from "./run-view.ts";

/** After this many identical consecutive calls the model is told. */
export const REPETITION_NOTICE = 3;
/** This many identical consecutive calls end the run; the last one is not executed any more. */
export const REPETITION_LIMIT = 5;

/** For each call of the run, in order, how many identical ones in a row it completes. */
export function repetitions(turns: readonly Turn[]): Map<ToolCall, number> {
  const count = repetitionCounter();
  return new Map(turns.flatMap((turn) => turn.calls).map((call) => [call, count(call)]));
}

/** Takes the calls of one run one after the other; says of each how many identical ones in a row it completes. */
export function repetitionCounter(): (call: ToolCall) => number {
  let previous: ToolCall | undefined;
  let count = 0;
  return (call) => {
    const same = previous?.name === call.name && isSameJson(previous.input, call.input);
    count = same ? count + 1 : 1;
    previous = call;
    return count;
  };
}

/** Whether two JSON values are equal, whatever the order of their keys. Without recursion: nesting has no limit. */
function isSameJson(a: unknown, b: unknown): boolean {
  const pairs: [unknown, unknown][] = [[a, b]];
  for (let pair = pairs.pop(); pair; pair = pairs.pop()) {
    const [left, right] = pair;
    if (left === right) continue;
    if (!isContainer(left) || !isContainer(right) || Array.isArray(left) !== Array.isArray(right))
      return false;
    const keys = Object.keys(left);
    if (keys.length !== Object.keys(right).length) return false;
    for (const key of keys) {
      if (!Object.hasOwn(right, key)) return false;
      pairs.push([left[key], right[key]]);
    }
  }
  return true;
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
