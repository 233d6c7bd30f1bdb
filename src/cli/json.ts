/** Results as JSON for programs: one line each, safe to be shown on a terminal. Pure. */

const UNSAFE = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** One line of JSON; control and direction characters are escaped, which means the same to every reader of JSON. */
export function toJsonLine(value: unknown): string {
  return JSON.stringify(value).replace(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
