/**
 * Pushes what stands in the channel of one parent, once through, with {@link AT_A_TIME} requests under way: one that is slow
 * holds up no other.
 */
import type { ClientResources } from "../../producer/client-resources.ts";
import type { Logger } from "../../shared/logger.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { isBehind, OLDEST } from "../../shared/protocol/reply.ts";
import { isReadable, type StreamEntry } from "../../shared/redis/replies.ts";
import type { RoundOutcome, WebhookSlots } from "../../shared/redis/webhook-slot.ts";
import type { StoredWebhook, Webhooks } from "../../shared/redis/webhooks.ts";
import type { PushAnswer, WebhookSender } from "./request.ts";

/** What a round works with. */
export interface PushParts {
  readonly sender: WebhookSender;
  readonly open: ClientResources;
  readonly webhooks: Webhooks;
  readonly slots: WebhookSlots;
  readonly signal: AbortSignal;
  /** Pause after the first failed round, ms. */
  readonly backoffMs: number;
  /** From 0 to 1. */
  readonly random: () => number;
  readonly logger: Logger | undefined;
}

/**
 * How a round ended: `done`: nothing is left to push; `more`: it had its share of entries; `failed`: the receiver is asked again
 * in `waitMs`; `refused`: what it did not take is tried again in `waitMs`, and what comes before is pushed at once; `stopped`: this
 * process may not go on.
 */
export type RoundEnd =
  | { status: "done" | "more" | "stopped" }
  | { status: "failed" | "refused"; waitMs: number };

const PAGE_ENTRIES = 100;
const AT_A_TIME = 16;
const MOST_FAILURES = 3;
const LONGEST_BACKOFF_MS = 3_600_000;
/** Then it is another parent's slot: after so many entries, or when the round has taken so long. */
const MOST_ENTRIES = 1_000;
const ROUND_MS = 60_000;

/** Pushes as long as `isOurs`. With `retryInMs` only what has come since entries were refused, which wait for their time. */
export async function pushParent(
  parts: PushParts,
  parent: ParentAddress,
  isOurs: () => boolean,
  retryInMs?: number,
): Promise<RoundEnd> {
  const { open, webhooks, slots, signal, logger } = parts;
  const beganAtMs = open.clock.monotonicMs();
  const webhook = await open.call(({ read }) => read(() => webhooks.get(parent)));
  if (!webhook || webhook.disabled) return { status: "done" };
  const mayGoOn = () => isOurs() && !signal.aborted;
  const round = await pushAll(parts, { parent, webhook, mayGoOn, isAhead: retryInMs !== undefined });
  // What was cut off has failed for no reason of the receiver's.
  if (!mayGoOn()) return { status: "stopped" };
  const leftMs =
    retryInMs === undefined
      ? undefined
      : Math.max(0, Math.ceil(retryInMs - (open.clock.monotonicMs() - beganAtMs)));
  const outcome = outcomeOf(parts, webhook, round, leftMs);
  if (outcome.status === "ok" && leftMs !== undefined && !round.isCut)
    return { status: "refused", waitMs: leftMs };
  if (outcome.status !== "ok" || webhook.failures > 0)
    await open.call(({ read }) => read(() => slots.note(parent, webhook, outcome)));
  if (outcome.status === "ok") return { status: round.isCut ? "more" : "done" };
  const { problem, status, waitMs } = outcome;
  if (status === "gone") return { status: "done" };
  logger?.warn({ parent: parent.parentId, problem }, "A webhook failed; trying again later");
  return { status, waitMs };
}

interface Pushing {
  readonly parent: ParentAddress;
  readonly webhook: StoredWebhook;
  readonly mayGoOn: () => boolean;
  /** Nothing but what stands behind the entry that was tried last. */
  readonly isAhead: boolean;
}

/** What came of a round's requests: `last` is the entry that was tried last; `isCut`: it had its share, and some may be left. */
interface Round {
  readonly failed: readonly PushAnswer[];
  readonly isTaken: boolean;
  readonly isCut: boolean;
  readonly last: string;
}

/** Goes through the channel from where the last round ended, and around. */
async function pushAll(parts: PushParts, { parent, webhook, mayGoOn, isAhead }: Pushing): Promise<Round> {
  const failed: PushAnswer[] = [];
  let [isTaken, sent, last] = [false, 0, webhook.after];
  const { clock } = parts.open;
  const endsAtMs = clock.monotonicMs() + ROUND_MS;
  const hasHadShare = () => sent >= MOST_ENTRIES || clock.monotonicMs() >= endsAtMs;
  const entries = (isAhead ? entriesBehind : entriesFrom)(parts.open, parent, webhook.after);
  const pushNext = async () => {
    for await (const entry of entries) {
      if (!mayGoOn() || failed.length >= MOST_FAILURES || hasHadShare()) return;
      sent += 1;
      last = entry.id;
      const answer = await pushOne(parts, parent, webhook, entry);
      if (answer.status === "taken") isTaken = true;
      else failed.push(answer);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, pushNext));
  return { failed, isTaken, isCut: hasHadShare(), last };
}

/** The entries of a channel behind `begin` in their order, then those up to it; several may take from it side by side. */
async function* entriesFrom(
  open: ClientResources,
  parent: ParentAddress,
  begin: string,
): AsyncGenerator<StreamEntry> {
  yield* entriesBehind(open, parent, begin);
  if (begin === OLDEST) return;
  for await (const entry of entriesBehind(open, parent, OLDEST)) {
    if (isBehind(begin, entry.id)) return;
    yield entry;
  }
}

async function* entriesBehind(
  { call, replies }: ClientResources,
  parent: ParentAddress,
  begin: string,
): AsyncGenerator<StreamEntry> {
  for (let after: string | undefined = begin; after !== undefined; ) {
    const from: string = after;
    const items = await call(({ read }) => read(() => replies.read(parent, from, PAGE_ENTRIES)));
    yield* items.filter(isReadable);
    // What comes behind the last page rings.
    after = items.length < PAGE_ENTRIES ? undefined : items.at(-1)?.id;
  }
}

/**
 * `retryInMs`: when what was refused before is tried again. What is refused ahead of that waits for the same time; a receiver
 * that does not answer then is a trouble of its own, counted from the beginning.
 */
function outcomeOf(
  { backoffMs, random }: PushParts,
  webhook: StoredWebhook,
  { failed, isTaken, last }: Round,
  retryInMs: number | undefined,
): RoundOutcome {
  const gone = failed.find(({ status }) => status === "gone");
  const worst = gone ?? failed.at(-1);
  if (!worst || worst.status === "taken") return { status: "ok" };
  const isRefused = failed.some(({ status }) => status === "refused");
  const after = isRefused ? last : OLDEST;
  const status = gone ? "gone" : isRefused ? "refused" : "failed";
  const { problem } = worst;
  if (status === "refused" && retryInMs !== undefined)
    return { status, problem, failures: webhook.failures, waitMs: retryInMs, after };
  const failures = isTaken || retryInMs !== undefined ? 0 : webhook.failures;
  const longest = Math.min(LONGEST_BACKOFF_MS, backoffMs * 2 ** Math.min(failures, 30));
  const waitMs = Math.ceil(longest * (0.5 + random() / 2));
  return { status, problem, failures: failures + 1, waitMs, after };
}

/** One entry: acked when it was taken. An ack that fails leaves it in the channel; the receiver sees its id again. */
async function pushOne(
  { sender, logger, open }: PushParts,
  parent: ParentAddress,
  webhook: StoredWebhook,
  entry: StreamEntry,
): Promise<PushAnswer> {
  const answer = await sender.send(webhook, entry.entry);
  if (answer.status === "taken") await open.channels.tryAck(parent, entry);
  else logger?.debug({ reply_id: entry.entry.reply_id, problem: answer.problem }, "A reply was not taken");
  return answer;
}
