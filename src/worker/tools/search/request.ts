/** What a matching thread is asked, and what it answers. Types only. */

/** A regular expression by its JavaScript source. */
export interface Expression {
  readonly source: string;
  readonly flags: string;
}

/** The text of a `.gitignore`, and the way down from its directory: empty, or ending in a slash. */
export interface IgnoreFile {
  readonly text: string;
  readonly above: string;
}

/** What a thread is asked. The hits of its answer are indices of `texts`. */
export type MatchRequest = { readonly texts: readonly string[] } & (
  | { readonly kind: "lines"; readonly source: string; readonly flags: string }
  | { readonly kind: "glob"; readonly pattern: string }
  | { readonly kind: "ignore"; readonly files: readonly IgnoreFile[] }
  | { readonly kind: "schema"; readonly schema: string }
);

/** What a thread answers: `mismatch` is a JSON value that does not fit the schema, and why; `malformed` is a glob that can match nothing, `invalid` comes with the engine's own words. */
export type MatchAnswer =
  | { readonly hits: readonly number[] }
  | { readonly problem: "too_slow" | "malformed" }
  | { readonly problem: "invalid" | "mismatch"; readonly message: string };
