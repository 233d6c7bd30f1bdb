/**
 * Colour and weight for terminals. Pure. The sixteen colours are what each theme defines for itself, and green, yellow and
 * cyan are pale on many light ones: they are for glyphs, words get bold, dim or red.
 */
import type { Environment } from "../shared/config.ts";

const CODES = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const;

/** A look. */
export type Look = keyof typeof CODES;
/** Dresses a text; returns it as it is where there is no colour. */
export type Style = (look: Look | undefined, text: string) => string;

/** A style that uses escape sequences, or none at all. */
export function createStyle(isColoured: boolean): Style {
  return (look, text) => {
    if (!isColoured || !look || text === "") return text;
    const [on, off] = CODES[look];
    return `\u001b[${on}m${text}\u001b[${off}m`;
  };
}

/** Whether a stream gets colour: NO_COLOR (any text) forbids it, FORCE_COLOR (not 0) wants it, else a terminal has it. */
export function wantsColour(env: Environment, isTty: boolean): boolean {
  if (env.NO_COLOR) return false;
  if (env.FORCE_COLOR !== undefined) return env.FORCE_COLOR !== "0" && env.FORCE_COLOR !== "false";
  return isTty && env.TERM !== "dumb";
}
