/**
 * The webhook of a parent: the URL to which its replies are pushed, what became of the last attempts, and which process pushes.
 *
 * The parent's hash decides. The installation's set of parents is a hint in another slot: written first, removed last. A turn
 * to push is a place in a sorted set by time: the end of a process' lease on it, or the time of a retry. A parent of which
 * there is nothing to push has no place.
 */
import { randomBytes } from "node:crypto";
import { z } from "zod";
import { type Keys, type ParentAddress, parentMember, parentOfMember } from "../protocol/keys.ts";
import { TIMING } from "../protocol/limits.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { type Answer, loadScripts } from "./scripts.ts";

const SECRET_BYTES = 24;
/** Behind it stands every entry. */
export const OLDEST = "0-0";

const Stored = z.object({
  v: z.literal("1"),
  url: z.string(),
  secret: z.string(),
  created_at: z.string(),
  /** Rounds in a row that failed, since one in which an entry was taken. */
  failures: z.coerce.number().int().min(0).default(0),
  /** Behind which entry the next round begins. */
  after: z.string().default(OLDEST),
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

/**
 * How a round of pushing ended: `gone` when the receiver said that it is gone for good. The next round begins behind the entry
 * `after`.
 */
export type RoundOutcome =
  | { status: "ok" }
  | { status: "failed" | "gone"; problem: string; failures: number; waitMs: number; after: string };

/** See the module's header. Commands reject as the connection does. */
export interface Webhooks {
  /** Sets the URL, with a new secret. */
  set(parent: ParentAddress, url: string): Promise<WebhookReceipt>;
  get(parent: ParentAddress): Promise<StoredWebhook | undefined>;
  /** True when there was one. */
  remove(parent: ParentAddress): Promise<boolean>;
  /** Parents that have entries to push, among about `count` of those with a webhook; and where the walk goes on, `"0"` at its end. */
  page(cursor: string, count: number): Promise<{ cursor: string; parents: ParentAddress[] }>;
  /** Notes how a round of `webhook` ended. */
  note(parent: ParentAddress, webhook: StoredWebhook, outcome: RoundOutcome): Promise<void>;
  /** Takes the turn to push; false: another process has it, or a retry waits for its time. */
  begin(parent: ParentAddress, lease: PushLease): Promise<boolean>;
  /** Keeps the turns `kept`, and takes up to `limit` whose time has come; members as of {@link parentMember}. */
  due(lease: PushLease, kept: readonly string[], limit: number): Promise<Answer<"webhook-due">>;
  /** Gives the turn up, until a retry in `inMs` where that is given; true: this process should begin the next one. */
  end(parent: ParentAddress, token: string, inMs: number | undefined): Promise<boolean>;
  /** Tells the processes that push that there is something to push. */
  ring(parent: ParentAddress): Promise<void>;
}

/** Who takes a turn, and for how long. */
export interface PushLease {
  token: string;
  ms: number;
}

/** The webhooks of an installation. */
export function createWebhooks(redis: RedisClient, keys: Keys): Webhooks {
  const scripts = loadScripts(redis, keys, TIMING);
  const ring = async (parent: ParentAddress) => {
    await redis.publish(keys.webhookDoorbell, parentMember(parent));
  };
  /** Whoever pushes loses its turn; no retry is waited for. */
  const endTurns = (parent: ParentAddress, begin: "due" | "never") => {
    const member = parentMember(parent);
    const turn = redis.multi().hdel(keys.webhookHolders, member);
    return (
      begin === "due" ? turn.zadd(keys.webhooksDue, 0, member) : turn.zrem(keys.webhooksDue, member)
    ).exec();
  };
  return {
    async set(parent, url) {
      const secret = `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
      const created_at = new Date(await redisNowMs(redis)).toISOString();
      const { webhook } = keys.parent(parent);
      await redis.sadd(keys.webhooks, parentMember(parent));
      await redis.multi().del(webhook).hset(webhook, { v: "1", url, secret, created_at }).exec();
      // What is in the channel is pushed at once.
      await endTurns(parent, "due");
      await ring(parent);
      return { url, status: "active", created_at, secret };
    },
    async get(parent) {
      return Stored.safeParse(await redis.hgetall(keys.parent(parent).webhook)).data;
    },
    async remove(parent) {
      const removed = await redis.del(keys.parent(parent).webhook);
      await endTurns(parent, "never");
      await redis.srem(keys.webhooks, parentMember(parent));
      return removed === 1;
    },
    async page(cursor, count) {
      const [next, members] = await redis.sscan(keys.webhooks, cursor, "COUNT", count);
      const parents = members.flatMap((member) => parentOfMember(member) ?? []);
      const waiting = await Promise.all(parents.map((parent) => redis.xlen(keys.parent(parent).replies)));
      return { cursor: next, parents: parents.filter((_, i) => (waiting[i] ?? 0) > 0) };
    },
    async note(parent, { secret }, outcome) {
      const { webhook } = keys.parent(parent);
      // Removed or set anew meanwhile: nothing comes back to life.
      if ((await redis.hget(webhook, "secret")) !== secret) return;
      if (outcome.status === "ok")
        return void (await redis.hdel(webhook, "failures", "after", "last_problem"));
      const { problem, status, failures, after } = outcome;
      const fields = { failures, after, last_problem: problem };
      await redis.hset(webhook, { ...fields, ...(status === "gone" && { disabled: "1" }) });
      // Nothing is pushed before it is set again.
      if (status === "gone") await redis.srem(keys.webhooks, parentMember(parent));
    },
    async begin(parent, lease) {
      const { status } = await scripts.run("webhook-begin", undefined, {
        member: parentMember(parent),
        ...lease,
      });
      return status === "begun";
    },
    due: (lease, kept, limit) =>
      scripts.run("webhook-due", undefined, {
        ...lease,
        limit,
        kept: kept.map((member) => [member] as const),
      }),
    async end(parent, token, inMs) {
      const turn = { member: parentMember(parent), token, in_ms: inMs };
      return (await scripts.run("webhook-end", undefined, turn)).status !== "ended";
    },
    ring,
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
