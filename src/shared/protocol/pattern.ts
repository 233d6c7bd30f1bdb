/** Patterns with `*`, matched in time proportional to pattern × text, whatever they are. Pure. */

/** Longest pattern. */
export const PATTERN_MAX_CHARS = 256;

/**
 * Whether `pattern` matches all of `text`. `*` stands for any characters but `separator`, `**` for any at all; without a
 * separator both are the same. A pattern over {@link PATTERN_MAX_CHARS} matches nothing.
 */
export function matchesPattern(pattern: string, text: string, separator = ""): boolean {
  if (pattern.length > PATTERN_MAX_CHARS) return false;
  if (!pattern.includes("*")) return pattern === text;
  const tokens = pattern.match(/\*+|[^*]/gs) ?? [];
  // reached[i]: the first i tokens match what has been read.
  let reached = withEmptyStars(tokens, [true]);
  for (const char of text.split("")) {
    const after: boolean[] = [];
    for (const [i, token] of tokens.entries()) {
      if (token.startsWith("*")) {
        const stays = token.length > 1 || char !== separator;
        if (stays && reached[i + 1]) after[i + 1] = true;
      } else if (reached[i] && token === char) after[i + 1] = true;
    }
    reached = withEmptyStars(tokens, after);
    if (!reached.includes(true)) return false;
  }
  return reached[tokens.length] === true;
}

/** Where a star has been reached, what follows it has been, too. */
function withEmptyStars(tokens: readonly string[], reached: boolean[]): boolean[] {
  for (const [i, token] of tokens.entries()) if (reached[i] && token.startsWith("*")) reached[i + 1] = true;
  return reached;
}
