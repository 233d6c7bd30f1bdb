/**
 * The form of a verb in the tables of verbs, and the values that every script gets without the caller naming them, with which
 * each call begins: keys, settings, channels and parts of the address. Lua uses the same names. Pure.
 */

import { KEPT_FIELDS, PAYLOAD_VERSION } from "../protocol/agent.ts";
import {
  type AgentAddress,
  type AgentKeys,
  agentOf,
  type Keys,
  type ParentKeys,
  replyIdOf,
} from "../protocol/keys.ts";
import {
  IDLE_MS,
  LIMITER_LATE_MS,
  MAX_LIVE_AGENTS,
  RESERVATION_MS,
  type Timing,
} from "../protocol/limits.ts";
import { ENTRY_OVERHEAD_BYTES, LOG_MAX_BYTES } from "../protocol/log.ts";
import { ATTACHED_MAX_WAITING, INBOX_MAX_BYTES, INBOX_MAX_MESSAGES } from "../protocol/message.ts";
import { MAX_SCHEDULES } from "../protocol/schedule.ts";
import { bulksOf, type Codec, type Fields, type ListCodec, type Lists } from "./codec.ts";

/** One verb. */
export interface Verb {
  /** Keys, passed as KEYS. Lua has each under the same name. */
  readonly keys: readonly KeyName[];
  /** Settings, channels and parts of the address, passed as arguments. Lua has each under the same name. */
  readonly context: readonly ContextName[];
  readonly args: Readonly<Record<string, Codec<unknown>>>;
  /** Lists of any length, passed after the other arguments. */
  readonly lists?: Readonly<Record<string, ListCodec<unknown>>>;
  /** First word of the answer → the values that follow it. */
  readonly answers: Readonly<Record<string, Readonly<Record<string, Codec<unknown>>>>>;
}

/** The keys, settings and address that a verb uses. */
interface VerbContext {
  readonly keys: Keys;
  readonly timing: Timing;
  readonly address: AgentAddress;
  readonly agent: AgentKeys;
  readonly parent: ParentKeys;
}

/** Keys whose name contains a value from the caller's input → the name of that value. */
export const KEY_PARAMETER = {
  request: "request_key",
  message: "message_id",
  ack: "reply_id",
  text: "reply_id",
  run_text: "run",
  resumed: "resumes",
  limiter: "name",
  budget: "name",
  reservation: "purchase_id",
  charged: "purchase_id",
  holders: "name",
  waiting: "name",
  wake_job: "job_id",
  fair_tenant: "tenant",
  tenant_parents: "tenant",
  lock: "lock",
  worker: "worker_id",
} as const;

/** The values of {@link KEY_PARAMETER}. `run` is the number of the run whose text the key holds; absent if there is none. */
export interface KeyParameters {
  request_key: string;
  message_id: string;
  reply_id: string;
  run?: number | undefined;
  /** The uid of the agent whose conversation a new agent continues. */
  resumes?: string | undefined;
  name: string;
  /** The purchase for which a call reserves from the budget `name`, or which is charged. */
  purchase_id: string;
  job_id: string;
  tenant: string;
  lock: string;
  worker_id: string;
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
  charged: ({ parent }, { purchase_id = "" }) => parent.charged(purchase_id),
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
  api_keys: ({ keys }) => keys.apiKeys,
  limiters: ({ keys }) => keys.limiters,
  limiter: ({ keys }, { name = "" }) => keys.limiter(name),
  budget: ({ keys }, { name = "" }) => keys.budget(name),
  reservation: ({ keys }, { name = "", purchase_id = "" }) => keys.reservation(`${name}/${purchase_id}`),
  holders: ({ keys }, { name = "" }) => keys.limiterHolders(name),
  waiting: ({ keys }, { name = "" }) => keys.limiterWaiting(name),
  resuming: ({ keys }, { name = "" }) => keys.limiterResuming(name),
  ranked_wakes: ({ keys }) => keys.rankedWakes,
  wake_job: ({ keys }, { job_id = "" }) => keys.wakeJob(job_id),
  fair_period: ({ keys }) => keys.fairPeriod,
  fair_tenant: ({ keys }, { tenant = "" }) => keys.fairTenant(tenant),
  lock: (_, { lock = "" }) => lock,
  worker: ({ keys }, { worker_id = "" }) => keys.worker(worker_id),
  webhooks_due: ({ keys }) => keys.webhooksDue,
  webhook_holders: ({ keys }) => keys.webhookHolders,
} as const satisfies Readonly<Record<string, Find>>;

/** Name of a key. */
export type KeyName = keyof typeof KEYS;

const CONTEXT = {
  uid: ({ address }) => address.uid,
  tenant: ({ address }) => address.tenant,
  parent_id: ({ address }) => address.parentId,
  doorbell: ({ parent }) => parent.doorbell,
  webhook_doorbell: ({ keys }) => keys.webhookDoorbell,
  events_channel: ({ parent }) => parent.events,
  hints: ({ keys }) => keys.hints,
  kept_fields: () => KEPT_FIELDS.join(" "),
  default_idle_ms: () => IDLE_MS,
  version: () => PAYLOAD_VERSION,
  max_live: () => MAX_LIVE_AGENTS,
  max_messages: () => INBOX_MAX_MESSAGES,
  max_bytes: () => INBOX_MAX_BYTES,
  max_attached: () => ATTACHED_MAX_WAITING,
  max_log_bytes: () => LOG_MAX_BYTES,
  entry_overhead: () => ENTRY_OVERHEAD_BYTES,
  max_schedules: () => MAX_SCHEDULES,
  lease_ms: ({ timing }) => timing.leaseMs,
  check_ms: ({ timing }) => timing.checkMs,
  grace_ms: ({ timing }) => Math.min(timing.leaseMs, timing.checkMs),
  max_age_ms: ({ timing }) => timing.maxAgeMs,
  tools_ms: ({ timing }) => timing.toolsMs,
  request_ttl_ms: ({ timing }) => timing.requestTtlMs,
  reply_ttl_ms: ({ timing }) => timing.replyTtlMs,
  kept_ms: ({ timing }) => timing.keptAfterAckMs,
  kept_timelines: ({ timing }) => timing.keptTimelines,
  reservation_ms: () => RESERVATION_MS,
  late_ms: () => LIMITER_LATE_MS,
  registry_ttl_ms: ({ timing }) => timing.registryTtlMs,
  usage_ttl_ms: ({ timing }) => timing.usageTtlMs,
  event_ttl_ms: ({ timing }) => timing.eventTtlMs,
} as const satisfies Readonly<Record<string, (context: VerbContext) => string | number>>;

/** Name of a setting, a channel or a part of the address. */
export type ContextName = keyof typeof CONTEXT;

const WORDS: ReadonlySet<string> = new Set([
  "uid",
  "tenant",
  "parent_id",
  "doorbell",
  "webhook_doorbell",
  "events_channel",
  "hints",
  "kept_fields",
]);

/** Returns true if Lua has `name` as a number. */
export function isNumber(name: ContextName): boolean {
  return !WORDS.has(name);
}

/** A verb prepared for sending and reading: the parts that all its calls share are computed once. */
export interface Form {
  readonly keys: readonly KeyName[];
  readonly context: Verb["context"];
  /** Names of the caller's values that name a key. */
  readonly parameters: readonly (keyof KeyParameters)[];
  readonly args: Fields;
  readonly lists: Lists;
  readonly answers: ReadonlyMap<string, Fields>;
}

/** Prepares a verb. */
export function formOf({ keys, context, args, lists = {}, answers }: Verb): Form {
  return {
    keys,
    context,
    parameters: [...new Set(keys.flatMap((key) => (isParametric(key) ? [KEY_PARAMETER[key]] : [])))],
    args: Object.entries(args),
    lists: Object.entries(lists),
    answers: new Map(Object.entries(answers).map(([word, fields]) => [word, Object.entries(fields)])),
  };
}

function isParametric(key: KeyName): key is KeyName & keyof typeof KEY_PARAMETER {
  return key in KEY_PARAMETER;
}

/** The beginning of a call as it is sent: number of keys, keys and context. */
export interface Opening {
  readonly form: Form;
  readonly bulks: string;
  readonly count: number;
  readonly key: string;
  /** The caller's value that names a key. */
  readonly for: string | undefined;
}

/** Returns the opening of a call on the agent at `address`. `given` has the caller's values for {@link KEY_PARAMETER}. */
export function openingOf(
  form: Form,
  settings: Pick<VerbContext, "keys" | "timing">,
  address: AgentAddress,
  given: Partial<KeyParameters>,
): Opening {
  const named = valueIn(form, given);
  const words = wordsOf(form, settings, address, given);
  const [key = ""] = words;
  const bulks = bulksOf([`${form.keys.length}`, ...words]);
  return { form, bulks, count: words.length + 1, key, for: named };
}

/** Returns the words of an opening: the keys of the verb, then its context. */
export function wordsOf(
  verb: Pick<Verb, "keys" | "context">,
  { keys, timing }: Pick<VerbContext, "keys" | "timing">,
  address: AgentAddress,
  given: Partial<KeyParameters>,
): string[] {
  const context = { keys, timing, address, agent: keys.agent(address), parent: keys.parent(address) };
  const words: string[] = [];
  for (const name of verb.keys) {
    const find: Find = KEYS[name];
    words.push(find(context, given));
  }
  for (const name of verb.context) words.push(`${CONTEXT[name](context)}`);
  return words;
}

/** Returns true if another call of this verb on the same agent begins alike; always false if two values name keys. */
export function beginsWith(opening: Opening, form: Form, given: Partial<KeyParameters>): boolean {
  return opening.form === form && form.parameters.length < 2 && opening.for === valueIn(form, given);
}

function valueIn({ parameters: [name] }: Form, given: Partial<KeyParameters>): string | undefined {
  return name && `${given[name]}`;
}
