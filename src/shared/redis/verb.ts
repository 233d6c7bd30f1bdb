/**
 * What a verb is made of: its form in the tables of verbs; what its script is handed without the caller naming it: keys,
 * settings, channels and parts of the address, each by the name that Lua has for it; and the codecs of its values, as text in
 * ARGV, as a local of the script, and back in an answer. Pure.
 */

import { SubagentError } from "../errors.ts";
import { PAYLOAD_VERSION } from "../protocol/agent.ts";
import {
  type AgentAddress,
  type AgentKeys,
  agentOf,
  type Keys,
  type ParentKeys,
  replyIdOf,
} from "../protocol/keys.ts";
import { IDLE_MS, MAX_LIVE_AGENTS, type Timing } from "../protocol/limits.ts";
import { ATTACHED_MAX_WAITING, INBOX_MAX_BYTES, INBOX_MAX_MESSAGES } from "../protocol/message.ts";
import { MAX_SCHEDULES } from "../protocol/schedule.ts";

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

/** Where a verb works. */
export interface VerbContext {
  readonly keys: Keys;
  readonly timing: Timing;
  readonly address: AgentAddress;
  readonly agent: AgentKeys;
  readonly parent: ParentKeys;
}

/** The keys of one agent and its parent. */
export function contextAt(keys: Keys, timing: Timing, address: AgentAddress): VerbContext {
  return { keys, timing, address, agent: keys.agent(address), parent: keys.parent(address) };
}

/** Keys that one more value of the caller's input names → which. */
export const KEY_PARAMETER = {
  request: "request_key",
  message: "message_id",
  ack: "reply_id",
  text: "reply_id",
  run_text: "run",
  resumed: "resumes",
  limiter: "name",
  budget: "name",
  holders: "name",
  waiting: "name",
  wake_job: "job_id",
  fair_tenant: "tenant",
  tenant_parents: "tenant",
  lock: "lock",
} as const;

/** Those values: `run` is the number of the run whose text it is, absent where there is none. */
export interface KeyParameters {
  request_key: string;
  message_id: string;
  reply_id: string;
  run?: number | undefined;
  /** The uid of the agent whose conversation goes on in a new one. */
  resumes?: string | undefined;
  name: string;
  job_id: string;
  tenant: string;
  /** The key of the lock. */
  lock: string;
}

type Find = (context: VerbContext, given: Partial<KeyParameters>) => string;

const KEYS = {
  record: ({ agent }) => agent.record,
  log: ({ agent }) => agent.log,
  inbox: ({ agent }) => agent.inbox,
  attachments: ({ agent }) => agent.attachments,
  life: ({ agent }) => agent.life,
  timeline: ({ agent }) => agent.timeline,
  transcript: ({ agent }) => agent.transcript,
  resumed: ({ keys, address }, { resumes = address.uid }) => keys.agent(agentOf(address, resumes)).transcript,
  message: ({ agent }, { message_id = "" }) => agent.message(message_id),
  registry: ({ parent }) => parent.registry,
  live: ({ parent }) => parent.live,
  usage: ({ parent }) => parent.usage,
  replies: ({ parent }) => parent.replies,
  webhook: ({ parent }) => parent.webhook,
  profile: ({ parent }) => parent.profile,
  schedules: ({ parent }) => parent.schedules,
  timelines: ({ parent }) => parent.timelines,
  history: ({ parent }) => parent.history,
  watching: ({ parent }) => parent.watching,
  parent_lease: ({ parent }) => parent.lease,
  request: ({ parent }, { request_key = "" }) => parent.request(request_key),
  ack: ({ parent }, { reply_id = "" }) => parent.ack(reply_id),
  text: ({ parent }, { reply_id = "" }) => parent.text(reply_id),
  run_text: ({ parent, address }, { run }) => parent.text(replyIdOf(address.uid, run)),
  deadlines: ({ keys }) => keys.deadlines,
  hint_grace: ({ keys }) => keys.hintGrace,
  parents: ({ keys }) => keys.parents,
  tenant_parents: ({ keys }, { tenant = "" }) => keys.tenantParents(tenant),
  paused: ({ keys }) => keys.paused,
  limiters: ({ keys }) => keys.limiters,
  limiter: ({ keys }, { name = "" }) => keys.limiter(name),
  budget: ({ keys }, { name = "" }) => keys.budget(name),
  holders: ({ keys }, { name = "" }) => keys.limiterHolders(name),
  waiting: ({ keys }, { name = "" }) => keys.limiterWaiting(name),
  ranked_wakes: ({ keys }) => keys.rankedWakes,
  wake_job: ({ keys }, { job_id = "" }) => keys.wakeJob(job_id),
  fair_period: ({ keys }) => keys.fairPeriod,
  fair_tenant: ({ keys }, { tenant = "" }) => keys.fairTenant(tenant),
  lock: (_, { lock = "" }) => lock,
  webhooks_due: ({ keys }) => keys.webhooksDue,
  webhook_holders: ({ keys }) => keys.webhookHolders,
} as const satisfies Readonly<Record<string, Find>>;

/** The name of a key. */
export type KeyName = keyof typeof KEYS;

const CONTEXT = {
  uid: ({ address }) => address.uid,
  tenant: ({ address }) => address.tenant,
  parent_id: ({ address }) => address.parentId,
  doorbell: ({ parent }) => parent.doorbell,
  webhook_doorbell: ({ keys }) => keys.webhookDoorbell,
  events_channel: ({ parent }) => parent.events,
  hints: ({ keys }) => keys.hints,
  default_idle_ms: () => IDLE_MS,
  version: () => PAYLOAD_VERSION,
  max_live: () => MAX_LIVE_AGENTS,
  max_messages: () => INBOX_MAX_MESSAGES,
  max_bytes: () => INBOX_MAX_BYTES,
  max_attached: () => ATTACHED_MAX_WAITING,
  max_schedules: () => MAX_SCHEDULES,
  lease_ms: ({ timing }) => timing.leaseMs,
  look_ms: ({ timing }) => timing.lookMs,
  longest_look_ms: ({ timing }) => timing.longestLookMs,
  grace_ms: ({ timing }) => Math.min(timing.leaseMs, timing.lookMs),
  max_age_ms: ({ timing }) => timing.maxAgeMs,
  tools_ms: ({ timing }) => timing.toolsMs,
  request_ttl_ms: ({ timing }) => timing.requestTtlMs,
  reply_ttl_ms: ({ timing }) => timing.replyTtlMs,
  kept_ms: ({ timing }) => timing.keptAfterAckMs,
  registry_ttl_ms: ({ timing }) => timing.registryTtlMs,
  usage_ttl_ms: ({ timing }) => timing.usageTtlMs,
  event_ttl_ms: ({ timing }) => timing.eventTtlMs,
} as const satisfies Readonly<Record<string, (context: VerbContext) => string | number>>;

/** The name of a setting, a channel or a part of the address. */
export type ContextName = keyof typeof CONTEXT;

const WORDS: ReadonlySet<string> = new Set([
  "uid",
  "tenant",
  "parent_id",
  "doorbell",
  "webhook_doorbell",
  "events_channel",
  "hints",
]);

/** Whether Lua has `name` as a number. */
export function isNumber(name: ContextName): boolean {
  return !WORDS.has(name);
}

/** What a verb is handed: its keys, then its context. `given` has the caller's values for those of {@link KEY_PARAMETER}. */
export function wordsOf(
  verb: { readonly keys: readonly KeyName[]; readonly context: readonly ContextName[] },
  context: VerbContext,
  given: Partial<KeyParameters>,
): string[] {
  const words = verb.keys.map((name) => {
    const find: Find = KEYS[name];
    return find(context, given);
  });
  for (const name of verb.context) words.push(`${CONTEXT[name](context)}`);
  return words;
}

/** What a script answers with: text, or a list of such. */
export type LuaValue = string | readonly LuaValue[];

/** One value. `undefined` is the empty text where the codec is {@link optional}. */
export interface Codec<T> {
  /** The Lua expression that makes the local out of the text in `slot`. */
  local(slot: string): string;
  encode(value: T): string;
  /** Throws `protocol_violation` where the answer lacks the value or holds something else. */
  decode(answer: LuaValue | undefined): T;
}

/** Further arguments behind the others: any number of items of the same form, one table each in Lua. */
export interface ListCodec<T> {
  /** The fields of an item, in order. */
  readonly fields: readonly string[];
  encode(items: readonly T[]): string[];
}

/** The value that a codec carries. */
export type ValueOf<C> = C extends Codec<infer T> ? T : C extends ListCodec<infer T> ? readonly T[] : never;

/** Values by name, in the order in which they are sent. */
export type Fields = readonly (readonly [name: string, codec: Codec<unknown>])[];

/** Lists by name, in the order in which they are sent. */
export type Lists = readonly (readonly [name: string, codec: ListCodec<unknown>])[];

const EMPTY_BULK = "$0\r\n\r\n";

/** Words of a command as they are sent, each a bulk string: its length in bytes, then itself. */
export function bulksOf(words: readonly string[]): string {
  let bulks = "";
  for (const word of words) bulks += word === "" ? EMPTY_BULK : `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
  return bulks;
}

/** `fields`, then `lists`, each of these behind the number of its items; out of the values that are given by name. */
export function encodeFields(
  fields: Fields,
  lists: Lists,
  given: Readonly<Record<string, unknown>>,
): { bulks: string; count: number } {
  const words = fields.map(([name, codec]) => codec.encode(given[name]));
  for (const [name, codec] of lists) {
    const items = (given[name] ?? []) as readonly unknown[];
    words.push(`${items.length}`, ...codec.encode(items));
  }
  return { bulks: bulksOf(words), count: words.length };
}

/** What verb `name` answered: packed by name, a word, then each name before its value. */
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

/** The error of an answer that no script of this version gives. */
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
  encode: (value) => Math.round(value).toFixed(0),
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
  decode: (answer) => Number(textIn(answer)),
};

/** True or false; a boolean in Lua. */
export const flag: Codec<boolean> = {
  local: (slot) => `${slot} == '1'`,
  encode: (value) => (value ? "1" : ""),
  decode: (answer) => answer === "1",
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

/** A value that may be missing: nil in Lua. Nothing that `codec` writes may be the empty text. */
export function optional<T>(codec: Codec<T>): Codec<T | undefined> {
  return {
    local: (slot) => `given(${slot}) and ${codec.local(slot)}`,
    encode: (value) => (value === undefined ? "" : codec.encode(value)),
    decode: (answer) => (answer === undefined || answer === "" ? undefined : codec.decode(answer)),
  };
}

/** Words without blanks, such as names of tools; one string in Lua, with a blank before and behind each. */
export const names: Codec<readonly string[]> = {
  local: itself,
  encode: (value) => (value.length === 0 ? "" : ` ${value.join(" ")} `),
  decode: (answer) =>
    textIn(answer ?? "")
      .split(" ")
      .filter((name) => name !== ""),
};

/** A value as JSON without lone surrogates, which no Lua decoder reads; a string in Lua, only ever sent. */
export function json<T>(toText: (value: T) => string): Codec<T> {
  return {
    local: itself,
    encode: toText,
    decode: () => {
      throw violation("with JSON");
    },
  };
}

/** A list of texts, only ever answered. */
export const texts: Codec<readonly string[]> = {
  local: itself,
  encode: () => "",
  decode: (answer) => listIn(answer).map(textIn),
};

/** A flat list of names and values, only ever answered: the content of a hash. */
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

/** A flat list in which each row has these values in this order, only ever answered. */
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
  return { fields, encode: (items) => items.flatMap((item) => [...item]) };
}
