/**
 * Which process pushes to the webhook of a parent, and how that went.
 *
 * A slot to push is a place in a sorted set by time: the end of a process' lease on it, or the time of a retry. A parent of
 * which there is nothing to push has no place.
 */
import {
  addressOfParent,
  type Keys,
  type ParentAddress,
  parentMember,
  parentOfMember,
} from "../protocol/keys.ts";
import { TIMING } from "../protocol/limits.ts";
import type { RedisClient } from "./connection/connection.ts";
import { loadScripts, type VerbAnswer } from "./scripts.ts";
import type { StoredWebhook } from "./webhooks.ts";

/**
 * How a round of pushing ended: `gone` when the receiver said that it is gone for good. The next round begins behind the entry
 * `after`.
 */
export type RoundOutcome =
  | { status: "ok" }
  | { status: "failed" | "gone"; problem: string; failures: number; waitMs: number; after: string };

/** See the module's header. Commands reject as the connection does. */
export interface WebhookSlots {
  /** Parents that have entries to push, among about `count` of those with a webhook; and where the walk goes on, `"0"` at its end. */
  page(cursor: string, count: number): Promise<{ cursor: string; parents: ParentAddress[] }>;
  /** Notes how a round of `webhook` ended. */
  note(parent: ParentAddress, webhook: StoredWebhook, outcome: RoundOutcome): Promise<void>;
  /** Takes the slot to push; false: another process has it, or a retry waits for its time. */
  begin(parent: ParentAddress, lease: PushLease): Promise<boolean>;
  /** Keeps the slots `kept`, and takes up to `limit` whose time has come; members as of {@link parentMember}. */
  due(lease: PushLease, kept: readonly string[], limit: number): Promise<VerbAnswer<"webhook-due">>;
  /** Gives the slot up, until a retry in `inMs` where that is given; true: this process should begin the next one. */
  end(parent: ParentAddress, token: string, inMs: number | undefined): Promise<boolean>;
}

/** Who takes a slot, and for how long. */
export interface PushLease {
  token: string;
  ms: number;
}

/** The slots to push of an installation. */
export function createWebhookSlots(redis: RedisClient, keys: Keys): WebhookSlots {
  const scripts = loadScripts(redis, keys, TIMING);
  return {
    async page(cursor, count) {
      const [next, members] = await redis.sscan(keys.webhooks, cursor, "COUNT", count);
      const parents = members.flatMap((member) => parentOfMember(member) ?? []);
      const waiting = await Promise.all(parents.map((parent) => redis.xlen(keys.parent(parent).replies)));
      return { cursor: next, parents: parents.filter((_, i) => (waiting[i] ?? 0) > 0) };
    },
    async note(parent, { secret }, outcome) {
      const met = outcome.status === "ok" ? undefined : outcome;
      const isGone = met?.status === "gone";
      const note = { problem: met?.problem, failures: met?.failures, after: met?.after, disabled: isGone };
      const { status } = await scripts.run("webhook-report", addressOfParent(parent), { secret, ...note });
      // Nothing is pushed before it is set again.
      if (isGone && status === "noted") await redis.srem(keys.webhooks, parentMember(parent));
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
      const slot = { member: parentMember(parent), token, in_ms: inMs };
      return (await scripts.run("webhook-end", undefined, slot)).status !== "ended";
    },
  };
}
