/** The form of a verb in the tables of verbs. Types only. */
import type { Codec, ListCodec } from "./codec.ts";
import type { ContextName, KeyName } from "./verb-context.ts";

/** One verb. */
export interface Verb {
  /** Handed as KEYS, found by name; in Lua under the same name. */
  readonly keys: readonly KeyName[];
  /** Settings, channels and parts of the address: handed as arguments, found by name. */
  readonly context: readonly ContextName[];
  readonly args: Readonly<Record<string, Codec<unknown>>>;
  /** Arguments of any number, behind the others. */
  readonly lists?: Readonly<Record<string, ListCodec<unknown>>>;
  /** First word of the answer → what it carries. */
  readonly answers: Readonly<Record<string, Readonly<Record<string, Codec<unknown>>>>>;
}
