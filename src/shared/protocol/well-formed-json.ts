/** JSON that every reader takes: a lone surrogate, which `JSON.stringify` writes as an escape, becomes U+FFFD. */

/** An escape in JSON: a lone surrogate, all others as a whole so that `\\ud800`, text about one, is left alone. */
const ESCAPE = /\\(?:u(d[89a-f][0-9a-f]{2})|.)/g;

/**
 * `json` without lone surrogates. The Messages API refuses the whole of a body for one, and Redis' scripts cannot decode
 * it. They come from texts cut in the middle of a character and from models; of what `JSON.stringify` writes nothing else
 * is an escape that begins with `\ud`.
 */
export function wellFormedJson(json: string): string {
  if (!json.includes("\\ud")) return json;
  return json.replace(ESCAPE, (spelled, surrogate) => (surrogate === undefined ? spelled : "\uFFFD"));
}
