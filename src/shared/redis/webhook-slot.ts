/**
 * The slots to push to the webhooks of parents, and the outcomes of the pushes: one process at a time pushes for a parent.
 *
 * A slot is a member of a sorted set by time: the end of a process' lease on it, or the time of a retry. A parent without
 * entries to push has none.
 */
import { unlessMistyped } from "../errors.ts";
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
import { forgetWebhook, type StoredWebhook } from "./webhooks.ts";

/** How far rounds have come: `newest` is the newest tried entry; retries begin with those after `after`. */
export interface Tried {
  after: string;
  newest: string;
}

/**
 * Outcome of a round of pushes: `gone` if the receiver said that it is gone for good, `refused` if it answered, but accepted
 * not all; `ok` with {@link Tried} if the round left entries.
 */
export type RoundOutcome =
  | ({ status: "ok" } & Partial<Tried>)
  | ({ status: "failed" | "refused" | "gone"; problem: string; failures: number; waitMs: number } & Tried);

/** See the module's header. Commands reject as the connection does. */
export interface WebhookSlots {
  /** Returns parents with entries to push, among about `count` of those with a webhook, and the next cursor, `"0"` at the end. */
  page(cursor: string, count: number): Promise<{ cursor: string; parents: ParentAddress[] }>;
  /** Notes the outcome of a round of `webhook`. */
  note(parent: ParentAddress, webhook: StoredWebhook, outcome: RoundOutcome): Promise<void>;
  /** Takes the slot to push; undefined: another process has it, or the back-off after a receiver's silence is not over. */
  begin(parent: ParentAddress, lease: PushLease): Promise<BegunSlot | undefined>;
  /** Extends the slots `kept`, and takes up to `limit` slots that are due; members as of {@link parentMember}. */
  due(lease: PushLease, kept: readonly string[], limit: number): Promise<VerbAnswer<"webhook-due">>;
  /** Releases the slot, for good or until `retry`; true: this process should begin the next one. */
  end(parent: ParentAddress, token: string, retry: PushRetry | undefined): Promise<boolean>;
}

/** A slot. `retryInMs`: time until refused entries are retried; until then only newer entries are pushed. */
export interface BegunSlot {
  retryInMs: number | undefined;
}

/** Time of a retry. `isRefused`: the receiver lives, so newer entries are pushed at once. */
export interface PushRetry {
  inMs: number;
  isRefused: boolean;
}

/** Holder and duration of a slot. */
export interface PushLease {
  token: string;
  ms: number;
}

/** Returns the slots to push of an installation. */
export function createWebhookSlots(redis: RedisClient, keys: Keys): WebhookSlots {
  const scripts = loadScripts(redis, keys, TIMING);
  return {
    async page(cursor, count) {
      const [next, members] = await redis.sscan(keys.webhooks, cursor, "COUNT", count);
      const parents = members.flatMap((member) => parentOfMember(member) ?? []);
      // One channel of the wrong type must not hide the others: the walk through all parents would end there each time.
      const lengthOf = (parent: ParentAddress) => unlessMistyped(redis.xlen(keys.parent(parent).replies), 0);
      const waiting = await Promise.all(parents.map(lengthOf));
      return { cursor: next, parents: parents.filter((_, i) => (waiting[i] ?? 0) > 0) };
    },
    async note(parent, { secret }, outcome) {
      const met = outcome.status === "ok" ? undefined : outcome;
      const isGone = met?.status === "gone";
      const { after, newest } = outcome;
      const note = { problem: met?.problem, failures: met?.failures, after, newest, disabled: isGone };
      const { status } = await scripts.run("webhook-report", addressOfParent(parent), { secret, ...note });
      // Nothing is pushed until the webhook is set again.
      if (isGone && status === "noted") await forgetWebhook(redis, keys, parent);
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
