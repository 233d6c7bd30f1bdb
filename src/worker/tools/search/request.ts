/** Requests to a matching thread, and its answers. Types only. */

/** A regular expression by its JavaScript source. */
export interface Expression {
  readonly source: string;
  readonly flags: string;
}

/** The text of a `.gitignore`, and the path from its directory down to the names: empty, or ending in a slash. */
export interface IgnoreFile {
  readonly text: string;
  readonly above: string;
}

/** Request to a thread. The hits of its answer are indices of `texts`. */
export type MatchRequest = { readonly texts: readonly string[] } & (
  | { readonly kind: "lines"; readonly source: string; readonly flags: string }
  | { readonly kind: "glob"; readonly pattern: string }
  | { readonly kind: "ignore"; readonly files: readonly IgnoreFile[] }
  | { readonly kind: "schema"; readonly schema: string }
);

/**
 * Answer of a thread. `no_descriptor`: the process has no file descriptor left for it. `mismatch`: a JSON value does not fit the
 * schema, and why. `malformed`: a glob can match nothing. `invalid` has the engine's message.
 */
export type MatchAnswer =
  | { readonly hits: readonly number[] }
  | { readonly problem: "too_slow" | "malformed" | "no_descriptor" }
  | { readonly problem: "invalid" | "mismatch"; readonly message: string };
