/** Codecs of the values of verbs: as text in ARGV, as a local of the script, and back from an answer. Pure. */
import { SubagentError } from "../errors.ts";

/** Answer of a script: text, or a list of answers. */
export type LuaValue = string | readonly LuaValue[];

/** Codec of one value. `undefined` is sent as the empty text. */
export interface Codec<T> {
  /** Returns the Lua expression that makes the local from the text in `slot`. */
  local(slot: string): string;
  encode(value: T): string;
  /** Throws `protocol_violation` if the answer lacks the value or has something else. */
  decode(answer: LuaValue | undefined): T;
}

/** Codec of a list, sent after the other arguments: any number of items of the same form, one Lua table each. */
export interface ListCodec<T> {
  /** The fields of an item, in order. */
  readonly fields: readonly string[];
  encode(items: readonly T[]): string[];
}

/** Type of a codec's value. */
export type ValueOf<C> = C extends Codec<infer T> ? T : C extends ListCodec<infer T> ? readonly T[] : never;

/** Values by name, in the order in which they are sent. */
export type Fields = readonly (readonly [name: string, codec: Codec<unknown>])[];

/** Lists by name, in the order in which they are sent. */
export type Lists = readonly (readonly [name: string, codec: ListCodec<unknown>])[];

const EMPTY_BULK = "$0\r\n\r\n";

/** Returns a word of a command as it is sent: its length in bytes, then the word. */
function bulk(word: string): string {
  return word === "" ? EMPTY_BULK : `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
}

/** Returns words of a command as they are sent. The text is flat because it is cached: one built with `+=` keeps all its parts. */
export function bulksOf(words: readonly string[]): string {
  let bulks = "";
  for (const word of words) bulks += bulk(word);
  return bulks;
}

/** Encodes `fields`, then `lists`, each list after the number of its items. `given` has the values by name. */
export function encodeFields(
  fields: Fields,
  lists: Lists,
  given: Readonly<Record<string, unknown>>,
): { bulks: string; count: number } {
  let bulks = "";
  let count = fields.length;
  for (const [name, codec] of fields) {
    const value = given[name];
    bulks += value === undefined ? EMPTY_BULK : bulk(codec.encode(value));
  }
  for (const [name, codec] of lists) {
    const items = (given[name] ?? []) as readonly unknown[];
    const words = codec.encode(items);
    bulks += bulk(`${items.length}`);
    for (const word of words) bulks += bulk(word);
    count += 1 + words.length;
  }
  return { bulks, count };
}

/** Decodes the answer of verb `name`: a word, then each name before its value. */
export function decodeAnswer(
  name: string,
  answers: ReadonlyMap<string, Fields>,
  answer: unknown,
): Record<string, unknown> {
  const packed = Array.isArray(answer) ? (answer as LuaValue[]) : [];
  const [status] = packed;
  const fields = typeof status === "string" ? answers.get(status) : undefined;
  if (!fields) throw violation(`${JSON.stringify(answer)} to ${name}`);
  const values: Record<string, unknown> = { status };
  for (const [field, codec] of fields) values[field] = codec.decode(valueAfter(packed, field));
  return values;
}

function valueAfter(packed: readonly LuaValue[], name: string): LuaValue | undefined {
  for (let i = 1; i < packed.length; i += 2) if (packed[i] === name) return packed[i + 1];
  return undefined;
}

/** Returns the error for an answer that no script of this version gives. */
function violation(what: string): SubagentError {
  return new SubagentError(
    "protocol_violation",
    `A script answered ${what}: run one version of this package.`,
  );
}

function textIn(answer: LuaValue | undefined): string {
  if (typeof answer === "string") return answer;
  throw violation(answer === undefined ? "without a value" : "with a list");
}

function listIn(answer: LuaValue | undefined): readonly LuaValue[] {
  if (answer !== undefined && typeof answer !== "string") return answer;
  throw violation("without a list");
}

const itself = (slot: string) => slot;

/** Any text; a string in Lua. */
export const text: Codec<string> = { local: itself, encode: (value) => value, decode: textIn };

/** A whole number, rounded when it is sent; a number in Lua. */
export const int: Codec<number> = {
  local: (slot) => `tonumber(${slot})`,
  encode: (value) => `${Math.round(value)}`,
  decode(answer) {
    const value = Number(textIn(answer));
    if (!Number.isSafeInteger(value)) throw violation(`${JSON.stringify(answer)} for a whole number`);
    return value;
  },
};

/** Any number; a number in Lua. */
export const real: Codec<number> = {
  local: (slot) => `tonumber(${slot})`,
  encode: (value) => `${value}`,
  decode(answer) {
    const value = Number(textIn(answer));
    if (!Number.isFinite(value)) throw violation(`${JSON.stringify(answer)} for a number`);
    return value;
  },
};

const INFINITE = /^([+-])?inf(?:inity)?$/i;

/** Parses a number in Redis, `inf` included; 0 for any other text, as scripts do. */
export function numberIn(text: string | null | undefined): number {
  const [infinite, sign] = INFINITE.exec(text ?? "") ?? [];
  if (infinite !== undefined) return sign === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Number(text) || 0;
}

/** True or false; a boolean in Lua. */
export const flag: Codec<boolean> = {
  local: (slot) => `${slot} == '1'`,
  encode: (value) => (value ? "1" : ""),
  decode(answer) {
    if (answer !== undefined && answer !== "1") throw violation(`${JSON.stringify(answer)} for a flag`);
    return answer === "1";
  },
};

/** One word of a closed set; a string in Lua. */
export function word<const W extends readonly string[]>(...words: W): Codec<W[number]> {
  return {
    local: itself,
    encode: (value) => value,
    decode(answer) {
      const found = words.find((each) => each === answer);
      if (found === undefined) throw violation(`${JSON.stringify(answer)}, none of ${words.join(", ")}`);
      return found;
    },
  };
}

/** An optional value: nil in Lua if missing. `codec` must never encode a value as the empty text. */
export function optional<T>(codec: Codec<T>): Codec<T | undefined> {
  return {
    local: (slot) => `given(${slot}) and ${codec.local(slot)}`,
    encode: (value) => (value === undefined ? "" : codec.encode(value)),
    decode: (answer) => (answer === undefined || answer === "" ? undefined : codec.decode(answer)),
  };
}

/** Words without blanks, such as names of tools; one string in Lua, with a blank before and after each. */
export const names: Codec<readonly string[]> = {
  local: itself,
  encode: (value) => (value.length === 0 ? "" : ` ${value.join(" ")} `),
  decode: (answer) =>
    textIn(answer ?? "")
      .split(" ")
      .filter((name) => name !== ""),
};

/** A value as JSON without lone surrogates, which no Lua decoder reads; a string in Lua, used in arguments only. */
export function json<T>(toText: (value: T) => string): Codec<T> {
  return {
    local: itself,
    encode: toText,
    decode: () => {
      throw violation("with JSON");
    },
  };
}

/** A list of texts, used in answers only. */
export const texts: Codec<readonly string[]> = {
  local: itself,
  encode: () => "",
  decode: (answer) => listIn(answer).map(textIn),
};

/** Yields the pairs of a flat list, as Redis answers fields and values, or members and scores; skips a single last item. */
export function* pairs(flat: readonly string[]): Generator<readonly [string, string]> {
  for (let i = 0; i + 1 < flat.length; i += 2) yield [flat[i] ?? "", flat[i + 1] ?? ""];
}

/** A flat list of names and values, used in answers only: the content of a hash. */
export const hash: Codec<ReadonlyMap<string, string>> = {
  local: itself,
  encode: () => "",
  decode(answer) {
    const flat = listIn(answer);
    const found = new Map<string, string>();
    for (let i = 0; i + 1 < flat.length; i += 2) found.set(textIn(flat[i]), textIn(flat[i + 1]));
    return found;
  },
};

/** A flat list of rows, each with these values in this order; used in answers only. */
export function rows<const C extends Readonly<Record<string, Codec<unknown>>>>(
  columns: C,
): Codec<readonly { readonly [N in keyof C]: ValueOf<C[N]> }[]> {
  type Row = { readonly [N in keyof C]: ValueOf<C[N]> };
  const each = Object.entries(columns);
  return {
    local: itself,
    encode: () => "",
    decode(answer) {
      const flat = listIn(answer);
      const found: Row[] = [];
      for (let at = 0; at + each.length <= flat.length; at += each.length)
        found.push(
          Object.fromEntries(each.map(([name, codec], i) => [name, codec.decode(flat[at + i])])) as Row,
        );
      return found;
    },
  };
}

/** Items of the named fields: tuples of texts here, tables with these names in Lua. */
export function list<const N extends readonly string[]>(
  ...fields: N
): ListCodec<{ readonly [I in keyof N]: string }> {
  return {
    fields,
    encode(items) {
      const words: string[] = [];
      for (const item of items) for (const word of item) words.push(word);
      return words;
    },
  };
}
