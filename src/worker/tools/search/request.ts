/** Messages between matching processes and their owner. Types only. */

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

/** Engine of an expression. The time of `linear`, re2js, grows only with the length of the text. */
export type Engine = "v8" | "linear";

/** Request to a matching process. The hits of its answer are indices of `texts`. */
export type MatchRequest = { readonly texts: readonly string[] } & (
  | { readonly kind: "lines"; readonly engine: Engine; readonly source: string; readonly flags: string }
  | { readonly kind: "glob"; readonly pattern: string }
  | { readonly kind: "ignore"; readonly files: readonly IgnoreFile[] }
  | { readonly kind: "schema"; readonly schema: string }
);

/**
 * Answer to a request. `too_slow`: the process was killed at the time limit, or the linear engine does not know the expression;
 * `isStarved`: the limit was that of waiting for the processor, so the same request may be answered another time.
 * `mismatch`: a JSON value does not fit the schema, and why. `malformed`: a glob can match nothing. `invalid` has the engine's
 * message.
 */
export type MatchAnswer =
  | { readonly hits: readonly number[] }
  | { readonly problem: "too_slow" | "malformed"; readonly isStarved?: boolean }
  | { readonly problem: "invalid" | "mismatch"; readonly message: string };

/**
 * Message of a matching process, two for each request: it begins, having loaded what the request needs, with the text of its
 * `/proc/<pid>/schedstat` (Linux only); and it answers. `retires`: it has used so much CPU time that another should follow it.
 */
export type ProcessMessage =
  | { readonly begun: string | undefined }
  | { readonly answer: MatchAnswer; readonly retires: boolean };
