/** The type of each key of an installation, by its name: with another type, another program has made the key. Pure. */
import type { AgentKeys, Keys, ParentKeys } from "../protocol/keys.ts";

/** Types of the keys of a parent and of an agent, by the part of their name. Channels have none. */
const PARENT_TYPES = {
  registry: "hash",
  live: "hash",
  usage: "hash",
  replies: "stream",
  history: "stream",
  timelines: "list",
  watching: "string",
  lease: "hash",
  profile: "hash",
  schedules: "hash",
  webhook: "hash",
  callback: "string",
  deleted: "string",
  request: "string",
  ack: "string",
  charged: "string",
  text: "string",
} satisfies Record<Exclude<keyof ParentKeys, "doorbell" | "events">, string>;
const AGENT_TYPES = {
  record: "hash",
  log: "hash",
  inbox: "list",
  attachments: "hash",
  life: "string",
  timeline: "list",
  transcript: "hash",
  message: "string",
} satisfies Record<keyof AgentKeys, string>;
const PART = /^\{[^{}]+\}:(?:(agent):[^:]+(?::([a-z]+).*)?|([a-z]+).*)$/s;

/** Returns the keys that the whole installation shares, by type; a name that ends in `:` is a prefix of several. */
function sharedKeys(keys: Keys): Readonly<Record<string, readonly string[]>> {
  return {
    string: [
      ...[keys.paused, keys.callbackLock, keys.fairPeriod, keys.apiKeyUsed("")],
      ...[keys.worker(""), keys.reservation("")],
    ],
    set: [keys.workers, keys.limiters, keys.webhooks],
    hash: [keys.hintGrace, keys.apiKeys, keys.webhookHolders, keys.limiter(""), keys.budget("")],
    stream: [keys.intake, keys.intakeRefused],
    zset: [
      ...[
        keys.deadlines,
        keys.parents,
        keys.webhooksDue,
        keys.callbacks,
        keys.repeatedIntake,
        keys.tenantParents(""),
      ],
      ...[keys.limiterHolders(""), keys.limiterWaiting(""), keys.limiterResuming(""), keys.fairTenant("")],
    ],
  };
}

/** Types of BullMQ's keys of a queue, by the last part of the name. */
const QUEUE_TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    wait: "list",
    paused: "list",
    active: "list",
    prioritized: "zset",
    delayed: "zset",
    completed: "zset",
    failed: "zset",
    marker: "zset",
    stalled: "set",
    meta: "hash",
    events: "stream",
    id: "string",
    pc: "string",
  }),
);
/** Names of the jobs of wakes; jobs of the intake queue may have any name. */
const WAKE_JOB = /^sa-[0-9a-f]+\.\d+$/;

/** Returns a function from a key to the type that it must have; undefined for keys that are not ours, or whose type is unknown. */
export function createKeyTypes(prefix: string, keys: Keys): (key: string) => string | undefined {
  const shared = Object.entries(sharedKeys(keys)).flatMap(([type, names]) =>
    names.map((name) => [name, type] as const),
  );
  const exact = new Map(shared);
  const families = shared.filter(([name]) => name.endsWith(":"));
  const ofParents = `${prefix}:`;
  const queues = [keys.wakeQueue, keys.intakeQueue].map((name) => `${keys.bullPrefix}:${name}:`);
  return (key) => {
    if (key.startsWith(ofParents)) return typeOfParentKey(key.slice(ofParents.length));
    const queue = queues.find((each) => key.startsWith(each));
    if (queue === undefined)
      return exact.get(key) ?? families.find(([beginning]) => key.startsWith(beginning))?.[1];
    const part = key.slice(queue.length);
    return (
      QUEUE_TYPES.get(part) ??
      exact.get(key) ??
      (queue === queues[0] && WAKE_JOB.test(part) ? "hash" : undefined)
    );
  };
}

function typeOfParentKey(name: string): string | undefined {
  const [, agent, ofAgent = "record", ofParent = ""] = PART.exec(name) ?? [];
  return new Map(Object.entries(agent ? AGENT_TYPES : PARENT_TYPES)).get(agent ? ofAgent : ofParent);
}
