/**
 * Runs the verbs of the table: assembles each script (the shared rules, locals by name, its own file), sends it with its
 * keys and arguments, and decodes the answer. Scripts are idempotent: a worker's ioredis re-sends one whose answer was lost.
 */
import { STORED_COUNTS } from "../protocol/content.ts";
import type { AgentAddress, Keys } from "../protocol/keys.ts";
import type { Timing } from "../protocol/limits.ts";
import { STORED_PROGRESS } from "../protocol/reply.ts";
import { decodeAnswer, encodeFields, type ValueOf } from "./codec.ts";
import type { RedisClient } from "./connection/connection.ts";
import { Script } from "./connection/server-connection.ts";
import { luaFile } from "./lua-files.ts";
import {
  beginsWith,
  type Form,
  formOf,
  isNumber,
  type KEY_PARAMETER,
  type KeyParameters,
  type Opening,
  openingOf,
  type Verb,
} from "./verb.ts";
import { VERBS } from "./verbs.ts";

type Table = typeof VERBS;
/** Name of a verb. */
export type VerbName = keyof Table;

type Optional<C> = { [K in keyof C]: undefined extends ValueOf<C[K]> ? K : never }[keyof C];
type Values<C> = { [K in Exclude<keyof C, Optional<C>>]: ValueOf<C[K]> } & {
  [K in Optional<C>]?: ValueOf<C[K]>;
};
type ListsOf<V> = V extends { lists: infer L } ? { [K in keyof L]?: ValueOf<L[K]> } : unknown;
type Parameters<V extends Verb> = Pick<
  KeyParameters,
  (typeof KEY_PARAMETER)[V["keys"][number] & keyof typeof KEY_PARAMETER]
>;

/** Input of a verb: its arguments, its lists, and the values that name its keys. */
export type VerbInput<N extends VerbName> = Values<Table[N]["args"]> &
  ListsOf<Table[N]> &
  Parameters<Table[N]>;
/** Answer of a verb: its word as `status`, and the values that come with it. */
export type VerbAnswer<N extends VerbName> = {
  [W in keyof Table[N]["answers"] & string]: { status: W } & Values<Table[N]["answers"][W]>;
}[keyof Table[N]["answers"] & string];

/** The verbs over one connection. */
export interface Scripts {
  /**
   * Runs verb `name` on the agent at `address`; undefined for a verb of the installation. Rejects with the connection's own
   * error if Redis cannot be asked, with `protocol_violation` if the verb has no such answer.
   */
  run<N extends VerbName>(
    name: N,
    address: AgentAddress | undefined,
    input: VerbInput<N>,
  ): Promise<VerbAnswer<N>>;
}

/** Placeholder address for a verb of the installation. */
const NO_AGENT: AgentAddress = { tenant: "", parentId: "", uid: "" };

/** The lists in stored values that scripts decode: Lua table of the positions → names in order. */
const STORED_LISTS = { PROGRESS: STORED_PROGRESS, COUNTS: STORED_COUNTS } as const;

/** Returns Lua lines that define the {@link STORED_LISTS} that `rules` use, as tables from a name to its position. */
function positionsFor(rules: string): string[] {
  return Object.entries(STORED_LISTS)
    .filter(([list]) => new RegExp(`\\b${list}\\b`).test(rules))
    .map(([list, names]) => `local ${list} = { ${names.map((name, i) => `${name} = ${i + 1}`).join(", ")} }`);
}

/** Returns the source of a script as Redis gets it. A line `-- Include a, b.` in its header names the shared rules it uses. */
export function luaSource(name: VerbName): string {
  const own = luaFile(name);
  const included = /^-- Include ([a-z, ]+)\.$/m.exec(own)?.[1]?.split(", ") ?? [];
  const rules = [...included.map((each) => luaFile(`include/${each}`)), own].join("\n");
  return [luaFile("include/base"), localsOf(VERBS[name]), ...positionsFor(rules), rules].join("\n");
}

/** Returns Lua lines that define keys, context and arguments as locals of their names. */
function localsOf({ keys, context, args, lists = {} }: Verb): string {
  const scalars = [
    ...context.map(
      (each) => [each, (slot: string) => (isNumber(each) ? `tonumber(${slot})` : slot)] as const,
    ),
    ...Object.entries(args).map(([each, codec]) => [each, codec.local] as const),
  ];
  const lines = keys.map((key, i) => `local ${key} = KEYS[${i + 1}]`);
  lines.push(...scalars.map(([each, local], i) => `local ${each} = ${local(`ARGV[${i + 1}]`)}`));
  const behind = Object.entries(lists);
  if (behind.length > 0) lines.push(`local next_list = ${scalars.length + 1}`);
  for (const [each, { fields }] of behind) {
    lines.push(`local ${each}`, `${each}, next_list = list(next_list, '${fields.join("', '")}')`);
  }
  return lines.join("\n");
}

/** Returns the verbs over `redis`. */
export function loadScripts(redis: RedisClient, keys: Keys, timing: Timing): Scripts {
  const scripts = allScripts();
  // A run calls the same verb many times: the opening of its last call is cached, and only that.
  const openings = new WeakMap<AgentAddress, Opening>();
  return {
    async run(name, at, input) {
      const address = at ?? NO_AGENT;
      const form = FORMS[name];
      let opening = openings.get(address);
      if (!opening || !beginsWith(opening, form, input)) {
        opening = openingOf(form, { keys, timing }, address, input);
        openings.set(address, opening);
      }
      const { bulks, count, key } = opening;
      const said = encodeFields(form.args, form.lists, input);
      const answer = await scripts[name].call(redis, bulks + said.bulks, count + said.count, key);
      return decodeAnswer(name, form.answers, answer) as VerbAnswer<typeof name>;
    },
  };
}

type ByVerb<T> = Readonly<Record<VerbName, T>>;

const VERB_NAMES = Object.keys(VERBS) as VerbName[];
const FORMS = Object.fromEntries(VERB_NAMES.map((name) => [name, formOf(VERBS[name])])) as ByVerb<Form>;
let scriptsRead: ByVerb<Script> | undefined;

/** Returns the script of each verb, read once per process; a script records over which sockets it was sent. */
function allScripts(): ByVerb<Script> {
  scriptsRead ??= Object.fromEntries(
    VERB_NAMES.map((name) => [name, new Script(luaSource(name))]),
  ) as ByVerb<Script>;
  return scriptsRead;
}
