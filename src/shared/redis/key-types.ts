/**
 * Which type each key of an installation has, by its name; and what a read does about a key that has another one, which another
 * program made. Pure.
 */
import type { AgentKeys, Keys, ParentKeys } from "../protocol/keys.ts";

/** The type of every key of a parent and of an agent, by the part of its name. Channels have none. */
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
  request: "string",
  ack: "string",
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

/** Every key that the whole installation shares, by its type; a name that ends in `:` is the beginning of several. */
function sharedKeys(keys: Keys): Readonly<Record<string, readonly string[]>> {
  return {
    string: [keys.paused, keys.callbackLock, keys.fairPeriod, keys.worker(""), keys.reservation("")],
    set: [keys.workers, keys.limiters, keys.webhooks],
    hash: [keys.hintGrace, keys.apiKeys, keys.webhookHolders, keys.limiter(""), keys.budget("")],
    stream: [keys.intake, keys.intakeRefused],
    zset: [
      ...[keys.deadlines, keys.parents, keys.webhooksDue, keys.callbacks, keys.tenantParents("")],
      ...[keys.limiterHolders(""), keys.limiterWaiting(""), keys.fairTenant("")],
    ],
  };
}

/** The type of the keys that BullMQ keeps of a queue, by the last part of the name. */
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
/** How the jobs of wakes are called; the jobs of the intake queue may have any name. */
const WAKE_JOB = /^sa-[0-9a-f]+\.\d+$/;

/** Answers which type the key of a name must have; undefined for keys that are not ours, or of which we do not know it. */
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
    return QUEUE_TYPES.get(part) ?? (queue === queues[0] && WAKE_JOB.test(part) ? "hash" : undefined);
  };
}

function typeOfParentKey(name: string): string | undefined {
  const [, agent, ofAgent = "record", ofParent = ""] = PART.exec(name) ?? [];
  return new Map(Object.entries(agent ? AGENT_TYPES : PARENT_TYPES)).get(agent ? ofAgent : ofParent);
}

/** Whether Redis refused a command because a key is of another type. */
export function isWrongType(error: unknown): boolean {
  return error instanceof Error && error.message.includes("WRONGTYPE");
}

/** What `read` brings; `instead` where a key that it reads is of another type. */
export async function unlessMistyped<T>(read: Promise<T>, instead: T): Promise<T> {
  try {
    return await read;
  } catch (error) {
    if (isWrongType(error)) return instead;
    throw error;
  }
}
