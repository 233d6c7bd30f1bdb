/**
 * The webhook of a parent: the URL to which its replies are pushed, and the outcome of the last attempts. Imports no client.
 *
 * The parent's hash decides. The installation's set of parents is a hint in another slot: written first, removed last.
 */

import { randomBytes } from "node:crypto";
import { z } from "zod";
import { isoTime } from "../protocol/agent.ts";
import { type Keys, type ParentAddress, parentMember } from "../protocol/keys.ts";
import { OLDEST } from "../protocol/reply.ts";
import { numberIn } from "./codec.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { SENT_ONCE, type Steps } from "./steps.ts";

const SECRET_BYTES = 24;

const Stored = z
  .object({
    v: z.literal("1"),
    url: z.string(),
    secret: z.string(),
    created_at: z.string(),
    /** Failed rounds in a row since the receiver last accepted an entry. */
    failures: z.coerce.number().int().min(0).default(0),
    /** Tried entry after which the next retries begin, at most `newest`. */
    after: z.string().default(OLDEST),
    /** Newest tried entry; absent in records of earlier versions: `after`. */
    newest: z.string().optional(),
    last_problem: z.string().optional(),
    /** Set after the receiver said that it is gone for good. */
    disabled: z.literal("1").optional(),
  })
  .transform((fields) => ({ ...fields, newest: fields.newest ?? fields.after }));

/** A webhook as the pushing process sees it. */
export type StoredWebhook = z.infer<typeof Stored>;

/**
 * A webhook as its parent sees it. `status`: `active`, `failing` (the last round failed; the next one begins by itself) or
 * `disabled` (the receiver answered 410: set it again to go on).
 */
export interface WebhookView {
  url: string;
  status: "active" | "failing" | "disabled";
  /** ISO 8601, Redis' clock. */
  created_at: string;
  /** Last problem, while it is failing or disabled. */
  last_problem?: string;
  /** Time of the next attempt, ISO 8601, Redis' clock, while it is failing. In the past: no API process pushes. */
  next_try_at?: string;
}

/** A new webhook; `secret` signs its requests and is not shown again. */
export interface WebhookReceipt extends WebhookView {
  secret: string;
}

/** See the module's header. Commands reject as the connection does. */
export interface Webhooks {
  /** Sets the URL, with a new secret. */
  set(parent: ParentAddress, url: string): Promise<WebhookReceipt>;
  get(parent: ParentAddress): Promise<StoredWebhook | undefined>;
  /** Returns the webhook as its parent sees it; undefined if there is none. */
  view(parent: ParentAddress): Promise<WebhookView | undefined>;
  /** Removes it; true if there was one, or if an earlier attempt may have removed it. */
  remove(parent: ParentAddress): Promise<boolean>;
  /** Tells the pushing processes about new entries. */
  ring(parent: ParentAddress): Promise<void>;
}

/** Returns the webhooks of an installation; `steps` send the commands of a change. */
export function createWebhooks(redis: RedisClient, keys: Keys, steps: Steps = SENT_ONCE): Webhooks {
  const heldAs = (member: string) => [member, `${member}/again`, `${member}/retry`] as const;
  /** Takes the slot from the pushing process and makes the parent due at once, without waiting for a retry. */
  const beginSlot = async (member: string) => {
    const held = redis.multi().hdel(keys.webhookHolders, ...heldAs(member));
    await held.zadd(keys.webhooksDue, 0, member).exec();
  };
  /**
   * Takes the slot from the pushing process for good. No transaction, because a Redis without free memory refuses it: so the
   * parent is removed from the due set before its holder is.
   */
  const endSlot = async (member: string) => {
    await redis.zrem(keys.webhooksDue, member);
    await redis.hdel(keys.webhookHolders, ...heldAs(member));
  };
  const get = async (parent: ParentAddress) =>
    Stored.safeParse(await redis.hgetall(keys.parent(parent).webhook)).data;
  return {
    get,
    async view(parent) {
      const [webhook, nextTryMs] = await Promise.all([get(parent), nextTryMsOf(redis, keys, parent)]);
      return webhook && viewOf(webhook, nextTryMs);
    },
    async set(parent, url) {
      const secret = `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
      const created_at = new Date(await steps.read(() => redisNowMs(redis))).toISOString();
      const { webhook } = keys.parent(parent);
      const member = parentMember(parent);
      await steps.read(() => redis.sadd(keys.webhooks, member));
      const fields = { v: "1", url, secret, created_at };
      await steps.write(() => redis.multi().del(webhook).hset(webhook, fields).exec());
      // Entries that are in the channel are pushed at once.
      await steps.read(() => beginSlot(member));
      await steps.read(() => redis.publish(keys.webhookDoorbell, member));
      return { url, status: "active", created_at, secret };
    },
    async remove(parent) {
      const wasThere = await deleteWebhook(redis, keys.parent(parent).webhook, steps);
      await steps.read(() => endSlot(parentMember(parent)));
      await steps.read(() => forgetWebhook(redis, keys, parent));
      return wasThere;
    },
    async ring(parent) {
      await redis.publish(keys.webhookDoorbell, parentMember(parent));
    },
  };
}

/** Deletes the hash of a webhook; true if there was one, or if an earlier attempt may have deleted it. */
async function deleteWebhook(redis: RedisClient, webhook: string, steps: Steps): Promise<boolean> {
  let isRepeated = false;
  const remove = (repeated: boolean) => {
    isRepeated = repeated;
    return redis.del(webhook);
  };
  return (await steps.write(remove, (count) => count > 0)) > 0 || isRepeated;
}

/**
 * Removes a parent from the set of parents with a webhook, after its webhook was removed or disabled. If another call has set one
 * meanwhile, the parent stays, and its entries are pushed.
 */
export async function forgetWebhook(redis: RedisClient, keys: Keys, parent: ParentAddress): Promise<void> {
  const member = parentMember(parent);
  await redis.srem(keys.webhooks, member);
  const [url, disabled] = await redis.hmget(keys.parent(parent).webhook, "url", "disabled");
  if (url == null || disabled != null) return;
  await redis.sadd(keys.webhooks, member);
  await redis.publish(keys.webhookDoorbell, member);
}

/** Returns a webhook without its secret. */
function viewOf(
  { url, created_at, failures, disabled, last_problem }: StoredWebhook,
  nextTryMs: number | undefined,
): WebhookView {
  const status = disabled ? "disabled" : failures > 0 ? "failing" : "active";
  return {
    ...{ url, status, created_at },
    ...(last_problem !== undefined && { last_problem }),
    ...(status === "failing" && nextTryMs !== undefined && { next_try_at: isoTime(nextTryMs) }),
  };
}

/** Reads when the parent's refused entries are tried again, or its slot is due, epoch ms; undefined: nothing is to be pushed. */
export async function nextTryMsOf(
  redis: RedisClient,
  keys: Keys,
  parent: ParentAddress,
): Promise<number | undefined> {
  const member = parentMember(parent);
  const [retryAt, dueAt] = await Promise.all([
    redis.hget(keys.webhookHolders, `${member}/retry`),
    redis.zscore(keys.webhooksDue, member),
  ]);
  const at = retryAt ?? dueAt;
  return at === null ? undefined : numberIn(at);
}
