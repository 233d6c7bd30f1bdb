/**
 * All names of this product in Redis, each spelled once. All keys of a tenant and parent share one hash tag, so that one
 * script may use them together in a cluster. Keys that every worker shares have a tag of their own.
 */
import type { Wake } from "./worker.ts";

/** Address of a parent: the owner of one hash tag. */
export interface ParentAddress {
  tenant: string;
  parentId: string;
}
/** Address of one agent. */
export interface AgentAddress extends ParentAddress {
  uid: string;
}

/** Returns the address of agent `uid` of a parent. */
export function agentOf({ tenant, parentId }: ParentAddress, uid: string): AgentAddress {
  return { tenant, parentId, uid };
}

/** Returns the address for a verb about a parent: no agent, but the slot of its agents. */
export function addressOfParent(parent: ParentAddress): AgentAddress {
  return agentOf(parent, "");
}

/** The keys and channels of one parent. */
export interface ParentKeys {
  /** hash: agent_id → uid, and `#<stem>` → last number given. */
  readonly registry: string;
  /** hash: uid of a live agent → its life key. */
  readonly live: string;
  /** hash: `<day>/<counter>` → usage of the runs that ended on that day. */
  readonly usage: string;
  /** stream: replies that are not acked. */
  readonly replies: string;
  /** channel: "there is a reply" (a hint). */
  readonly doorbell: string;
  /** channel: progress events, published while {@link ParentKeys.watching} exists (hints). */
  readonly events: string;
  /** stream: the newest event lines of all agents of the parent, each a pointer into a timeline. */
  readonly history: string;
  /** list: the timelines kept of the newest ended agents whose end was acked. */
  readonly timelines: string;
  /** string: exists while a subscriber of the events renews it. */
  readonly watching: string;
  /** hash: time until which the parent's agents do not follow it, if it holds a lease. */
  readonly lease: string;
  /** hash: the profile that was registered for the parent, and its version. */
  readonly profile: string;
  /** hash: schedule_id → the schedule, JSON. */
  readonly schedules: string;
  /** hash: the parent's webhook, and the state of its pushes. */
  readonly webhook: string;
  /** string: the thread of another server that a thread of the Agent Protocol calls back. */
  callback(threadId: string): string;
  /** string: the mark of a thread of the Agent Protocol that was deleted. */
  deleted(threadId: string): string;
  /** string: the agent that a spawn with this request key made. */
  request(requestKey: string): string;
  /** string: the token of this reply's first ack. */
  ack(replyId: string): string;
  /** string: the mark of a purchase that `charge` has booked. */
  charged(purchaseId: string): string;
  /** string: the full text of a reply. */
  text(replyId: string): string;
}

/** The keys of one agent. */
export interface AgentKeys {
  /** hash: the agent's record. */
  readonly record: string;
  /** hash: the log, entries written once. */
  readonly log: string;
  /** list: unread messages, oldest first. */
  readonly inbox: string;
  /** hash: files and images of messages that no log entry has consumed yet, JSON. */
  readonly attachments: string;
  /** string with the idle time as TTL; without TTL while the agent is not idle. */
  readonly life: string;
  /** list: the event lines of the agent's runs, oldest first. */
  readonly timeline: string;
  /** hash: the log of an agent that has ended. */
  readonly transcript: string;
  /** string: digest of an accepted message. */
  message(messageId: string): string;
}

/** All names under one prefix. */
export interface Keys {
  /** Prefix of BullMQ's own keys, with a hash tag. */
  bullPrefix: string;
  /** Name of the BullMQ queue that carries wakes. */
  wakeQueue: string;
  /** Name of the BullMQ queue that takes tasks from BullMQ's own clients, and from schedules. */
  intakeQueue: string;
  /** stream: requests from programs without this library; an entry stays until it is handed over. */
  intake: string;
  /** stream: the newest refused requests without a parent to tell, and the reasons. */
  intakeRefused: string;
  /** sorted set: job of a new run → its position in the queue of wakes; BullMQ's own. */
  rankedWakes: string;
  /** hash: the job of a wake; BullMQ's own. */
  wakeJob(jobId: string): string;
  /** sorted set: job of a wake that must not be taken yet → the time when it may be; BullMQ's own. */
  delayedWakes: string;
  /** hash: a job of the intake queue; BullMQ's own. */
  intakeJob(jobId: string): string;
  /** sorted set: job of the intake queue that must not be taken yet → the time when it may be; BullMQ's own. */
  delayedIntake: string;
  /** sorted set of BullMQ: schedulers of the intake queue, by the time at which they come due next. */
  repeatedIntake: string;
  /** string: number of the current period in which wakes have waited without a break. */
  fairPeriod: string;
  /** sorted set: parent of the tenant with wakes in the queue → position of its next one. */
  fairTenant(tenant: string): string;
  /** sorted set: member → time (epoch ms) at which a sweeper checks the agent. A hint; the records decide. */
  deadlines: string;
  /** hash: member → time (epoch ms) until which a sweeper must check the member again. */
  hintGrace: string;
  /** sorted set: `<tenant>/<parent>` → the parent's last activity (epoch ms). A hint. */
  parents: string;
  /** sorted set: parent of the tenant → its last activity (epoch ms). A hint. */
  tenantParents(tenant: string): string;
  /** channel: the uid of an agent whose run must stop at once (a hint). */
  hints: string;
  /** set: ids of workers that announced themselves. */
  workers: string;
  /** string: announcement of a worker; it expires when the worker stops announcing. */
  worker(workerId: string): string;
  /** string: start and reason of an operator's pause of the installation. */
  paused: string;
  /** hash: id of an API key → its rights, and the digest of its secret; revoked ones stay. */
  apiKeys: string;
  /** string: time at which an API key was last used, to the minute (ISO 8601, Redis' clock). */
  apiKeyUsed(keyId: string): string;
  /** set: `<tenant>/<parent>` of parents whose replies are pushed. A hint. */
  webhooks: string;
  /** sorted set: `<tenant>/<parent>` whose replies are pushed or wait for a retry → when another process may begin (epoch ms). */
  webhooksDue: string;
  /** hash: `<tenant>/<parent>` whose replies are being pushed → the token of the process that pushes them. */
  webhookHolders: string;
  /** channel: `<tenant>/<parent>` with a webhook whose channel has a new entry (a hint). */
  webhookDoorbell: string;
  /** sorted set: `<tenant>/<parent>/<uid>` of an agent whose end must be reported → time (epoch ms) of the next check. */
  callbacks: string;
  /** string: token of the process that reports these ends now. */
  callbackLock: string;
  /** string: number of requests of an API key or an address in the current window. */
  requestRate: string;
  /** set: names of the provider limiters that are not healthy, and of some that were. */
  limiters: string;
  /** hash: state of a provider limiter that is not healthy. */
  limiter(name: string): string;
  /** sorted set: run → end of its lease on a slot (epoch ms). */
  limiterHolders(name: string): string;
  /** sorted set: run → time (epoch ms) at which it asks again. */
  limiterWaiting(name: string): string;
  /** sorted set: run that has made a call, and waits for its next one → the same. These come first. */
  limiterResuming(name: string): string;
  /** hash: sums spent of a budget, with the reservations of calls under way. */
  budget(name: string): string;
  /** string: reservation of a budget for a call under way. `call`: `<budget>/<purchase>.<try>`. */
  reservation(call: string): string;
  parent(address: ParentAddress): ParentKeys;
  agent(address: AgentAddress): AgentKeys;
}

/**
 * Returns the names under `prefix`, by default `saq`; installations that share one database need different prefixes. Channels reach all
 * databases of a Redis: in a database other than 0 their names end with its number.
 */
export function keysUnder(prefix = "saq", database = 0): Keys {
  const ending = database === 0 ? "" : `@${database}`;
  const tagged = ({ tenant, parentId }: ParentAddress) => `${prefix}:{${tenant}/${parentId}}`;
  return {
    bullPrefix: `{${prefix}}`,
    wakeQueue: "wakes",
    ...intakeNames(prefix),
    rankedWakes: `{${prefix}}:wakes:prioritized`,
    wakeJob: (jobId) => `{${prefix}}:wakes:${jobId}`,
    delayedWakes: `{${prefix}}:wakes:delayed`,
    fairPeriod: `{${prefix}}:fair`,
    fairTenant: (tenant) => `{${prefix}}:fair:${tenant}`,
    deadlines: `{${prefix}}:deadlines`,
    hintGrace: `{${prefix}}:hint-grace`,
    parents: `{${prefix}}:parents`,
    tenantParents: (tenant) => `{${prefix}}:parents:${tenant}`,
    hints: `${prefix}:hints${ending}`,
    workers: `{${prefix}}:workers`,
    worker: (workerId) => `{${prefix}}:worker:${workerId}`,
    paused: `{${prefix}}:paused`,
    apiKeys: `{${prefix}}:api-keys`,
    apiKeyUsed: (keyId) => `{${prefix}}:api-key-used:${keyId}`,
    webhooks: `{${prefix}}:webhooks`,
    webhooksDue: `{${prefix}}:webhooks-due`,
    webhookHolders: `{${prefix}}:webhook-holders`,
    webhookDoorbell: `${prefix}:webhook-doorbell${ending}`,
    callbacks: `{${prefix}}:callbacks`,
    callbackLock: `{${prefix}}:callback-lock`,
    requestRate: `${prefix}:request-rate`,
    limiters: `{${prefix}}:limiters`,
    limiter: (name) => `{${prefix}}:limiter:${name}`,
    limiterHolders: (name) => `{${prefix}}:limiter-holders:${name}`,
    limiterWaiting: (name) => `{${prefix}}:limiter-waiting:${name}`,
    limiterResuming: (name) => `{${prefix}}:limiter-resuming:${name}`,
    budget: (name) => `{${prefix}}:budget:${name}`,
    reservation: (call) => `{${prefix}}:reservation:${call}`,
    parent: (address) => parentKeys(tagged(address), ending),
    agent: (address) => agentKeys(`${tagged(address)}:agent:${address.uid}`),
  };
}

/** Returns the keys of a parent, which begin with `tag`, and its channels, which also end with `ending`. */
function parentKeys(tag: string, ending: string): ParentKeys {
  return {
    registry: `${tag}:registry`,
    live: `${tag}:live`,
    usage: `${tag}:usage`,
    replies: `${tag}:replies`,
    doorbell: `${tag}:doorbell${ending}`,
    events: `${tag}:events${ending}`,
    history: `${tag}:history`,
    timelines: `${tag}:timelines`,
    watching: `${tag}:watching`,
    lease: `${tag}:lease`,
    profile: `${tag}:profile`,
    schedules: `${tag}:schedules`,
    webhook: `${tag}:webhook`,
    callback: (threadId) => `${tag}:callback:${threadId}`,
    deleted: (threadId) => `${tag}:deleted:${threadId}`,
    request: (requestKey) => `${tag}:request:${requestKey}`,
    ack: (replyId) => `${tag}:ack:${replyId}`,
    charged: (purchaseId) => `${tag}:charged:${purchaseId}`,
    text: (replyId) => `${tag}:text:${replyId}`,
  };
}

function agentKeys(record: string): AgentKeys {
  return {
    record,
    log: `${record}:log`,
    inbox: `${record}:inbox`,
    attachments: `${record}:attachments`,
    life: `${record}:life`,
    timeline: `${record}:timeline`,
    transcript: `${record}:transcript`,
    message: (messageId) => `${record}:message:${messageId}`,
  };
}

function intakeNames(prefix: string) {
  return {
    intakeQueue: "intake",
    intakeJob: (jobId: string) => `{${prefix}}:intake:${jobId}`,
    delayedIntake: `{${prefix}}:intake:delayed`,
    repeatedIntake: `{${prefix}}:intake:repeat`,
    intake: `{${prefix}}:intake-stream`,
    intakeRefused: `{${prefix}}:intake-refused`,
  };
}

/** Returns the member of the deadline set for an agent. */
export function deadlineMember({ tenant, parentId, uid }: AgentAddress): string {
  return `${tenant}/${parentId}/${uid}`;
}

/** Returns the agent of a member of the deadline set; undefined for a foreign member. */
export function addressOfMember(member: string): AgentAddress | undefined {
  const [tenant, parentId, uid, ...rest] = member.split("/");
  return tenant && parentId && uid && rest.length === 0 ? { tenant, parentId, uid } : undefined;
}

/** Returns the member of the index of parents for a parent. */
export function parentMember({ tenant, parentId }: ParentAddress): string {
  return `${tenant}/${parentId}`;
}

/** Returns the parent of a member of the index of parents; undefined for a foreign member. */
export function parentOfMember(member: string): ParentAddress | undefined {
  const [tenant, parentId, ...rest] = member.split("/");
  return tenant && parentId && rest.length === 0 ? { tenant, parentId } : undefined;
}

/** Returns wake number `wake` of an agent. */
export function wakeOf(
  { tenant, parentId, uid }: AgentAddress,
  agentId: string,
  wake: number,
): Omit<Wake, "v"> {
  return { tenant, parent_id: parentId, uid, agent_id: agentId, wake };
}

/** Returns the id of a wake's job. */
export function wakeJobId({ uid, wake }: Pick<Wake, "uid" | "wake">): string {
  return `${uid}.${wake}`;
}

/** The number of an agent's first run; a task has no other. */
export const FIRST_RUN = 1;

/** The number of the wake of an agent's first run. */
export const FIRST_WAKE = 1;

/** Returns the reply id of a run, or of an agent's end without a reply (`run` undefined). */
export function replyIdOf(uid: string, run: number | undefined): string {
  return `${uid}.${run ?? "end"}`;
}

// From a key back to its owner.

/** Kind of a parent's key, for a scan of all keys. */
export type OwnedPart =
  | "live"
  | "registry"
  | "replies"
  | "record"
  | "log"
  | "inbox"
  | "attachments"
  | "life"
  | "timeline";

/** A parent's key; `uid` is set if the key belongs to an agent. */
export interface OwnedKey extends ParentAddress {
  part: OwnedPart;
  uid?: string;
}

const OF_PARENT: ReadonlySet<string> = new Set(["live", "registry", "replies"]);
const OF_AGENT: ReadonlySet<string> = new Set(["log", "inbox", "attachments", "life", "timeline"]);
const FORM = /^\{([^/{}]+)\/([^/{}]+)\}:(?:agent:([^:]+)(?::([a-z]+))?|([a-z]+))$/;

/**
 * Returns a glob for SCAN that matches every key under `prefix`: `<prefix>:{…` of the parents and `{<prefix>}:…` of all.
 * Keys of other prefixes with the same end match as well.
 */
export function installationKeysGlob(prefix: string): string {
  return `*${prefix}[:}]*`;
}

/** Returns the owner of `key` under `prefix`; undefined for all but {@link OwnedPart}s: request keys, acks, texts, message ids … */
export function ownerOfKey(prefix: string, key: string): OwnedKey | undefined {
  if (!key.startsWith(`${prefix}:`)) return undefined;
  const [, tenant, parentId, uid, ofAgent = "record", ofParent = ""] =
    FORM.exec(key.slice(prefix.length + 1)) ?? [];
  if (tenant === undefined || parentId === undefined) return undefined;
  if (uid === undefined)
    return isPart(ofParent, OF_PARENT) ? { tenant, parentId, part: ofParent } : undefined;
  if (ofAgent === "record") return { tenant, parentId, uid, part: "record" };
  return isPart(ofAgent, OF_AGENT) ? { tenant, parentId, uid, part: ofAgent } : undefined;
}

function isPart(text: string, parts: ReadonlySet<string>): text is OwnedPart {
  return parts.has(text);
}
