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
 * How a round of pushing ended: `gone` when the receiver said that it is gone for good, `refused` when it answered, but took
 * not all. The next round begins behind the entry `after`.
 */
export type RoundOutcome =
  | { status: "ok" }
  | {
      status: "failed" | "refused" | "gone";
      problem: string;
      failures: number;
      waitMs: number;
      after: string;
    };

/** See the module's header. Commands reject as the connection does. */
export interface WebhookSlots {
  /** Parents that have entries to push, among about `count` of those with a webhook; and where the walk goes on, `"0"` at its end. */
  page(cursor: string, count: number): Promise<{ cursor: string; parents: ParentAddress[] }>;
  /** Notes how a round of `webhook` ended. */
  note(parent: ParentAddress, webhook: StoredWebhook, outcome: RoundOutcome): Promise<void>;
  /** Takes the slot to push; undefined: another process has it, or a receiver that did not answer has its pause. */
  begin(parent: ParentAddress, lease: PushLease): Promise<BegunSlot | undefined>;
  /** Keeps the slots `kept`, and takes up to `limit` whose time has come; members as of {@link parentMember}. */
  due(lease: PushLease, kept: readonly string[], limit: number): Promise<VerbAnswer<"webhook-due">>;
  /** Gives the slot up, until a retry where there is to be one; true: this process should begin the next one. */
  end(parent: ParentAddress, token: string, retry: PushRetry | undefined): Promise<boolean>;
}

/** A slot; `retryInMs`: until what the receiver refused is tried again. Before that, only what has come since is pushed. */
export interface BegunSlot {
  retryInMs: number | undefined;
}

/** When a round begins by itself; `isRefused`: the receiver lives, so what comes before is pushed at once. */
export interface PushRetry {
  inMs: number;
  isRefused: boolean;
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
      const slot = { member: parentMember(parent), ...lease };
      const answer = await scripts.run("webhook-begin", undefined, slot);
      return answer.status === "begun" ? { retryInMs: answer.retry_in_ms } : undefined;
    },
    due: (lease, kept, limit) =>
      scripts.run("webhook-due", undefined, {
        ...lease,
        limit,
        kept: kept.map((member) => [member] as const),
      }),
    async end(parent, token, retry) {
      const refused = retry?.isRefused ?? false;
      const slot = { member: parentMember(parent), token, in_ms: retry?.inMs, refused };
      return (await scripts.run("webhook-end", undefined, slot)).status !== "ended";
    },
  };
}
