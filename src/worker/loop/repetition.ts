/** Loop detection: the same tool call with the same input, again and again. */

/** After this many identical consecutive calls the model is told. */
export const REPETITION_NOTICE = 3;
/** This many identical consecutive calls end the run; the last one is not executed any more. */
export const REPETITION_LIMIT = 5;

/** Takes the calls of one run one after the other. */
export class Repetition {
  #previous: { name: string; input: unknown } | undefined;
  #count = 0;
  #isOver = false;

  /** Whether some call of the run completed {@link REPETITION_LIMIT} identical ones. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** How many identical calls in a row `call` completes. */
  count(call: { name: string; input: unknown }): number {
    const isSame = this.#previous?.name === call.name && isSameJson(this.#previous.input, call.input);
    this.#count = isSame ? this.#count + 1 : 1;
    this.#previous = call;
    this.#isOver ||= this.#count >= REPETITION_LIMIT;
    return this.#count;
  }
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
