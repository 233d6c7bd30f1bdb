/**
 * Pushes the entries in the channel of one parent once. Up to {@link AT_A_TIME} requests run in parallel, so a slow one does
 * not delay the others.
 */
import type { ClientResources } from "../../producer/client-resources.ts";
import type { Logger } from "../../shared/logger.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { isBehind, OLDEST } from "../../shared/protocol/reply.ts";
import type { PageBounds } from "../../shared/redis/page-bounds.ts";
import { redisNowMs } from "../../shared/redis/redis-time.ts";
import type { StreamEntry } from "../../shared/redis/replies.ts";
import type { RoundOutcome, Tried, WebhookSlots } from "../../shared/redis/webhook-slot.ts";
import type { StoredWebhook, Webhooks } from "../../shared/redis/webhooks.ts";
import type { PushAnswer, WebhookSender } from "./request.ts";

/** Dependencies of a round. */
export interface PushParts {
  readonly sender: WebhookSender;
  readonly open: ClientResources;
  readonly webhooks: Webhooks;
  readonly slots: WebhookSlots;
  readonly bounds: PageBounds;
  readonly signal: AbortSignal;
  /** Back-off after the first failed round, ms. */
  readonly backoffMs: number;
  /** Returns a random number from 0 to 1. */
  readonly random: () => number;
  readonly onAnswer: (status: PushAnswer["status"]) => void;
  readonly logger: Logger | undefined;
}

/**
 * The end of a round. `done`: no entry is left to push; `more`: the round reached its limit of entries or time; `failed`: the
 * receiver is called again in `waitMs`; `refused`: refused entries are retried in `waitMs`, and new entries are pushed at
 * once, as are those that no round has tried yet, if this one ended before them (`hasMore`); `stopped`: this process has lost
 * the slot or stops, and refused entries still wait for `waitMs`.
 */
export type RoundEnd =
  | { status: "done" | "more" | "stopped" }
  | { status: "failed" | "stopped"; waitMs: number }
  | { status: "refused"; waitMs: number; hasMore: boolean };

const PAGE_ENTRIES = 100;
const AT_A_TIME = 16;
const MOST_FAILURES = 3;
const LONGEST_BACKOFF_MS = 3_600_000;
/** Limits of a round, after which the slot goes to another parent: entries, and time in ms. */
const MOST_ENTRIES = 1_000;
const ROUND_MS = 60_000;

/** Pushes while `isOurs`. With `retryInMs` it pushes only entries newer than the refused ones, which wait for that time. */
export async function pushParent(
  parts: PushParts,
  parent: ParentAddress,
  isOurs: () => boolean,
  retryInMs?: number,
): Promise<RoundEnd> {
  const { open, webhooks, slots, signal, logger } = parts;
  const beganAtMs = open.clock.monotonicMs();
  const [webhook, redisMs] = await open.read(() =>
    Promise.all([webhooks.get(parent), redisNowMs(open.redis)]),
  );
  if (!webhook || webhook.disabled) return { status: "done" };
  // A round that has left out an entry stays broken off, also if the slot is renewed meanwhile.
  let isStopped = false;
  const mayGoOn = () => {
    isStopped ||= signal.aborted || !isOurs();
    return !isStopped;
  };
  const readAtMs = open.clock.monotonicMs();
  const nowMs = () => redisMs + open.clock.monotonicMs() - readAtMs;
  const round = await pushAll(parts, { parent, webhook, mayGoOn, nowMs, onlyNewer: retryInMs !== undefined });
  const leftMs =
    retryInMs === undefined
      ? undefined
      : Math.max(0, Math.ceil(retryInMs - (open.clock.monotonicMs() - beganAtMs)));
  // Requests that this process cut off are not failures of the receiver.
  if (!mayGoOn()) return { status: "stopped", ...(leftMs !== undefined && { waitMs: leftMs }) };
  const outcome = outcomeOf(parts, webhook, round, leftMs);
  if (outcome.status === "ok" && leftMs !== undefined)
    return { status: "refused", waitMs: leftMs, hasMore: round.isCut };
  if (outcome.status !== "ok" || webhook.failures > 0 || webhook.newest !== OLDEST)
    await open.read(() => slots.note(parent, webhook, outcome));
  if (outcome.status === "ok") return { status: round.isCut ? "more" : "done" };
  const { problem, status, waitMs } = outcome;
  const line = { tenant: parent.tenant, parent: parent.parentId, problem };
  if (status === "gone") {
    logger?.warn(line, "A webhook is gone: nothing is pushed until its parent sets it again");
    return { status: "done" };
  }
  logger?.warn({ ...line, next_try_in_ms: waitMs }, "A webhook failed; trying again later");
  return status === "failed" ? { status, waitMs } : { status, waitMs, hasMore: round.isCut };
}

interface Pushing {
  readonly parent: ParentAddress;
  readonly webhook: StoredWebhook;
  readonly mayGoOn: () => boolean;
  /** Redis' time, epoch ms: receivers refuse a request whose time is far from theirs. */
  readonly nowMs: () => number;
  /** Whether to push only entries that no round has tried. */
  readonly onlyNewer: boolean;
}

/**
 * The results of a round's requests. `isCut`: the round reached a limit, entries may be left. The third failure is such a limit
 * if the receiver took another entry: it lives.
 */
interface Round extends Tried {
  readonly failed: readonly PushAnswer[];
  readonly isTaken: boolean;
  readonly isCut: boolean;
}

/**
 * Pushes the entries that no round has tried, then the others from the end of the last round on. If a page cannot be read, rejects
 * as the read does, after the answers to all requests under way.
 */
async function pushAll(parts: PushParts, pushing: Pushing): Promise<Round> {
  const { parent, webhook, mayGoOn, onlyNewer } = pushing;
  const failed: PushAnswer[] = [];
  let [isTaken, sent] = [false, 0];
  let { after, newest } = webhook;
  const { clock } = parts.open;
  const endsAtMs = clock.monotonicMs() + ROUND_MS;
  const hasHadShare = () => sent >= MOST_ENTRIES || clock.monotonicMs() >= endsAtMs;
  const entries = onlyNewer
    ? entriesBehind(parts, parent, webhook.newest)
    : allEntries(parts, parent, webhook);
  const pushNext = async () => {
    for await (const { entry, release } of entries) {
      try {
        if (!mayGoOn() || failed.length >= MOST_FAILURES || hasHadShare()) return;
        sent += 1;
        if (isBehind(newest, entry.id)) newest = entry.id;
        else after = entry.id;
        const answer = await pushOne(parts, pushing, entry);
        if (answer.status === "taken") isTaken = true;
        else failed.push(answer);
      } finally {
        release();
      }
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: AT_A_TIME }, pushNext));
  // Only now: the next round would send again what is still under way.
  for (const end of ends) if (end.status === "rejected") throw end.reason;
  const isCut = hasHadShare() || (isTaken && failed.length >= MOST_FAILURES);
  return { failed, isTaken, isCut, after, newest };
}

/** An entry that is held until `release` is called. */
interface HeldEntry {
  readonly entry: StreamEntry;
  release(): void;
}

/**
 * Yields the untried entries of a channel in order, then the tried ones after `after`, then those up to it. Several consumers may
 * share the iterator.
 */
async function* allEntries(
  parts: PushParts,
  parent: ParentAddress,
  { after, newest }: Tried,
): AsyncGenerator<HeldEntry> {
  yield* entriesBehind(parts, parent, newest);
  yield* entriesBehind(parts, parent, after, newest);
  yield* entriesBehind(parts, parent, OLDEST, after);
}

/** Yields the entries after `begin`, in order: up to `end`, by default all. */
async function* entriesBehind(
  { open: { read, replies }, bounds, signal }: PushParts,
  parent: ParentAddress,
  begin: string,
  end?: string,
): AsyncGenerator<HeldEntry> {
  for (let after: string | undefined = begin; after !== undefined && after !== end; ) {
    const from: string = after;
    const readPage = () => read(() => replies.page(parent, from, PAGE_ENTRIES));
    const { entries, lastId, isLast, release } = await bounds.read(parent.tenant, readPage, signal);
    let given = 0;
    try {
      for (const entry of entries) {
        if (end !== undefined && isBehind(end, entry.id)) return;
        given += 1;
        yield { entry, release };
      }
    } finally {
      for (; given < entries.length; given += 1) release();
    }
    // An entry written after the last page rings the doorbell.
    after = isLast ? undefined : lastId;
  }
}

/**
 * Returns the outcome of a round. `retryInMs`: time until earlier refused entries are retried; entries refused before then
 * wait for the same time. If the receiver does not answer before then, its failures are counted from 0 again. After a receiver's
 * silence the next round begins with the same entries; if it is silent at a retry, with others, because these may be the cause.
 */
function outcomeOf(
  { backoffMs, random }: PushParts,
  webhook: StoredWebhook,
  { failed, isTaken, isCut, ...tried }: Round,
  retryInMs: number | undefined,
): RoundOutcome {
  const gone = failed.find(({ status }) => status === "gone");
  const worst = gone ?? failed.at(-1);
  if (!worst || worst.status === "taken") return { status: "ok", ...(isCut && tried) };
  const isRefused = failed.some(({ status }) => status === "refused");
  const isRetry = retryInMs === undefined && webhook.failures > 0;
  const { after, newest } = isRefused || isRetry ? tried : webhook;
  const status = gone ? "gone" : isRefused ? "refused" : "failed";
  const { problem } = worst;
  if (status === "refused" && retryInMs !== undefined)
    return { status, problem, failures: webhook.failures, waitMs: retryInMs, after, newest };
  const failures = isTaken || retryInMs !== undefined ? 0 : webhook.failures;
  const longest = Math.min(LONGEST_BACKOFF_MS, backoffMs * 2 ** Math.min(failures, 30));
  const waitMs = Math.ceil(longest * (0.5 + random() / 2));
  return { status, problem, failures: failures + 1, waitMs, after, newest };
}

/** Pushes one entry and acks it if it was taken. If the ack fails, the entry stays, and the receiver gets its id again. */
async function pushOne(
  { sender, logger, open, onAnswer }: PushParts,
  { parent, webhook, nowMs }: Pushing,
  entry: StreamEntry,
): Promise<PushAnswer> {
  const answer = await sender.send(webhook, entry.entry, nowMs());
  onAnswer(answer.status);
  if (answer.status === "taken") await open.channels.tryAck(parent, entry);
  else logger?.debug({ reply_id: entry.entry.reply_id, problem: answer.problem }, "A reply was not taken");
  return answer;
}
