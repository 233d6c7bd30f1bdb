/**
 * The webhook of a parent: the URL to which its replies are pushed, and what became of the last attempts.
 *
 * The parent's hash decides. The installation's set of parents is a hint in another slot: written first, removed last.
 */
import { randomBytes } from "node:crypto";
import { z } from "zod";
import { type Keys, type ParentAddress, parentMember, parentOfMember } from "../protocol/keys.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";

const SECRET_BYTES = 24;

const Stored = z.object({
  v: z.literal("1"),
  url: z.string(),
  secret: z.string(),
  created_at: z.string(),
  /** Rounds in a row that failed, since one in which an entry was taken. */
  failures: z.coerce.number().int().min(0).default(0),
  /** No round before this time, epoch ms of Redis' clock. */
  not_before: z.coerce.number().int().min(0).default(0),
  last_problem: z.string().optional(),
  /** There once the receiver said that it is gone for good. */
  disabled: z.literal("1").optional(),
});

/** A webhook as the process that pushes sees it. */
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
  /** What went wrong last, while it is failing or disabled. */
  last_problem?: string;
}

/** A webhook that was just set; `secret` signs its requests and is not shown again. */
export interface WebhookReceipt extends WebhookView {
  secret: string;
}

/** How a round of pushing ended: `gone` when the receiver said that it is gone for good. */
export type RoundOutcome =
  | { status: "ok" }
  | { status: "failed" | "gone"; problem: string; failures: number; waitMs: number };

/** See the module's header. Commands reject as the connection does. */
export interface Webhooks {
  /** Sets the URL, with a new secret. */
  set(parent: ParentAddress, url: string): Promise<WebhookReceipt>;
  get(parent: ParentAddress): Promise<StoredWebhook | undefined>;
  /** True when there was one. */
  remove(parent: ParentAddress): Promise<boolean>;
  /** The parents that have one. */
  parents(): Promise<ParentAddress[]>;
  /** Notes how a round ended. */
  note(parent: ParentAddress, outcome: RoundOutcome): Promise<void>;
  /** How long no round may begin, ms; 0: it may begin now. */
  waitMs(webhook: StoredWebhook): Promise<number>;
}

/** The webhooks of an installation. */
export function createWebhooks(redis: RedisClient, keys: Keys): Webhooks {
  const now = () => redisNowMs(redis);
  return {
    async set(parent, url) {
      const secret = `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
      const created_at = new Date(await now()).toISOString();
      const { webhook } = keys.parent(parent);
      await redis.sadd(keys.webhooks, parentMember(parent));
      await redis.multi().del(webhook).hset(webhook, { v: "1", url, secret, created_at }).exec();
      // A ring without an entry: what is in the channel is pushed at once.
      await redis.publish(keys.parent(parent).doorbell, "");
      return { url, status: "active", created_at, secret };
    },
    async get(parent) {
      return Stored.safeParse(await redis.hgetall(keys.parent(parent).webhook)).data;
    },
    async remove(parent) {
      const removed = await redis.del(keys.parent(parent).webhook);
      await redis.srem(keys.webhooks, parentMember(parent));
      return removed === 1;
    },
    async parents() {
      const members = await redis.smembers(keys.webhooks);
      return members.flatMap((member) => parentOfMember(member) ?? []);
    },
    async note(parent, outcome) {
      const { webhook } = keys.parent(parent);
      // Removed meanwhile: nothing comes back to life.
      if ((await redis.exists(webhook)) === 0) return;
      if (outcome.status === "ok")
        return void (await redis.hdel(webhook, "failures", "not_before", "last_problem"));
      const { problem, waitMs, status, failures } = outcome;
      const fields = { failures, not_before: (await now()) + waitMs, last_problem: problem };
      await redis.hset(webhook, { ...fields, ...(status === "gone" && { disabled: "1" }) });
    },
    waitMs: async ({ not_before }) => (not_before === 0 ? 0 : Math.max(0, not_before - (await now()))),
  };
}

/** A webhook without its secret. */
export function webhookViewOf({
  url,
  created_at,
  failures,
  disabled,
  last_problem,
}: StoredWebhook): WebhookView {
  const status = disabled ? "disabled" : failures > 0 ? "failing" : "active";
  return { url, status, created_at, ...(last_problem !== undefined && { last_problem }) };
}
