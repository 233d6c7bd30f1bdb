/**
 * Pushes replies, questions and messages to the URLs of their parents.
 *
 * Owns: the watches on the doorbells of parents with a webhook, and the rounds under way in this process. Redis owns who
 * pushes for a parent and when the next round may begin, so any number of API processes may run.
 *
 * 1. An entry is acked when the receiver answered 2xx, and never before: a receiver or a process that dies in between sees
 *    the same `webhook-id` again.
 * 2. A round has at most {@link AT_A_TIME} requests under way and ends at its third failure; the next one begins after a pause,
 *    also in another process. The pause doubles while nothing is taken. Entries that are refused hold up none behind them:
 *    the next round of this process begins behind the last one tried.
 * 3. The doorbell begins a round at once; the subscriber's slow tick makes up for a lost ring.
 * 4. At most one process pushes for a parent at a time. A process that dies frees its slot after {@link PUSH_LEASE_MS}.
 */
import type { Client } from "../../producer/client.ts";
import { insideOf } from "../../producer/client.ts";
import type { OpenClient } from "../../producer/open-client.ts";
import { type Clock, systemClock } from "../../shared/clock.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import { type ParentAddress, parentMember } from "../../shared/protocol/keys.ts";
import { isBehind } from "../../shared/protocol/reply.ts";
import { createLocks } from "../../shared/redis/lock.ts";
import { isReadable, type StreamEntry } from "../../shared/redis/replies.ts";
import { createWebhooks, type RoundOutcome, type StoredWebhook } from "../../shared/redis/webhooks.ts";
import type { Reach } from "./address.ts";
import { createSender, type PushAnswer, type WebhookSender } from "./request.ts";

/** How replies are pushed. */
export interface WebhookPushOptions {
  client: Client;
  /** Default `public`: only addresses of the public internet, over https. */
  reach?: Reach;
  /** Pause after the first failed round, ms, default 1,000; doubles up to an hour. */
  backoffMs?: number;
  clock?: Clock;
  logger?: Logger;
  /** From 0 to 1; for tests. */
  random?: () => number;
}

/** See the module's header. */
export interface WebhookPush {
  /** Begins to push. Idempotent. */
  start(): void;
  /** Ends; requests under way are cut off, what they carried stays in its channel. Idempotent. */
  stop(): Promise<void>;
}

/** A process keeps its slot for so long after it last took it. */
const PUSH_LEASE_MS = 10_000;
/** While it pushes it takes it so often. */
const PUSH_RENEW_MS = 3_000;
const LIST_AGAIN_MS = 1_000;
const PAGE_ENTRIES = 100;
const AT_A_TIME = 16;
const MOST_FAILURES = 3;
const LONGEST_BACKOFF_MS = 3_600_000;
const BACKOFF_MS = 1_000;
/** Behind it stands every entry. */
const OLDEST = "0-0";

/** A push over `client`, not started. */
export function createWebhookPush(options: WebhookPushOptions): WebhookPush {
  const { reach = "public", clock = systemClock } = options;
  const sender = createSender(reach, clock);
  const over = new AbortController();
  let running: Promise<void> | undefined;
  return {
    start() {
      running ??= watchParents({ ...options, clock, sender, signal: over.signal });
    },
    async stop() {
      over.abort();
      await sender.close();
      await running;
    },
  };
}

interface PushParts extends WebhookPushOptions {
  readonly clock: Clock;
  readonly sender: WebhookSender;
  readonly signal: AbortSignal;
}

/** Watches every parent that has a webhook, and looks again every second which those are. */
async function watchParents(parts: PushParts): Promise<void> {
  const { client, clock, signal, logger } = parts;
  const watched = new Map<string, () => void>();
  while (!signal.aborted) {
    try {
      const open = await insideOf(client).open();
      const webhooks = createWebhooks(open.redis, open.keys);
      const parents = await open.call(({ read }) => read(() => webhooks.parents()));
      const members = new Set(parents.map(parentMember));
      for (const [member, end] of watched) if (!members.has(member) && watched.delete(member)) end();
      for (const parent of parents)
        if (!watched.has(parentMember(parent)))
          watched.set(parentMember(parent), watchParent(parts, open, parent));
    } catch (error) {
      logger?.debug({ problem: messageOf(error) }, "Webhooks could not be listed; again soon");
    }
    await clock.sleep(LIST_AGAIN_MS, signal);
  }
  for (const end of watched.values()) end();
}

/** Begins a round at each ring, and at the end of a pause; at most one at a time in this process. */
function watchParent(parts: PushParts, open: OpenClient, parent: ParentAddress): () => void {
  const { clock, logger, signal } = parts;
  const place: Place = { token: newRequestKey(), after: OLDEST };
  let [isEnded, isRunning, isAskedAgain] = [false, false, false];
  let timer: { cancel(): void } | undefined;

  const begin = () => {
    isAskedAgain = isRunning;
    if (isRunning || isEnded || signal.aborted) return;
    isRunning = true;
    timer?.cancel();
    round(parts, open, parent, place)
      .catch((error: unknown) => {
        logger?.debug({ problem: messageOf(error) }, "A round of webhooks broke off; again soon");
        return undefined;
      })
      .then((waitMs) => {
        isRunning = false;
        if (waitMs !== undefined && !isEnded && !signal.aborted) timer = clock.timeout(waitMs, begin);
        else if (isAskedAgain) begin();
      });
  };
  const unwatch = open.subscriber.watch(open.keys.parent(parent).doorbell, {
    onMessage: begin,
    onGap: begin,
    onStop: () => {},
  });
  return () => {
    isEnded = true;
    timer?.cancel();
    unwatch();
  };
}

/** Pushes what is there. Resolves to how long to wait for the next try; undefined when all is pushed, or not ours to push. */
async function round(
  parts: PushParts,
  open: OpenClient,
  parent: ParentAddress,
  place: Place,
): Promise<number | undefined> {
  const webhooks = createWebhooks(open.redis, open.keys);
  const webhook = await open.call(({ read }) => read(() => webhooks.get(parent)));
  if (!webhook || webhook.disabled) return undefined;
  const waitMs = await open.call(({ read }) => read(() => webhooks.waitMs(webhook)));
  if (waitMs > 0) return waitMs;
  const { token } = place;
  if (!(await takeSlot(open, parent, token))) return undefined;
  try {
    const outcome = await pushAll(parts, open, { parent, place, webhook });
    if (outcome.status !== "ok" || webhook.failures > 0)
      await open.call(({ read }) => read(() => webhooks.note(parent, outcome)));
    if (outcome.status === "failed")
      parts.logger?.warn(
        { parent: parent.parentId, problem: outcome.problem },
        "A webhook failed; trying again later",
      );
    return outcome.status === "failed" ? outcome.waitMs : undefined;
  } finally {
    const { pushing } = open.keys.parent(parent);
    await open.call(({ read }) => read(() => createLocks(open.redis, open.keys).release(pushing, token)));
  }
}

/** Takes or keeps the slot to push for a parent; false while another process has it. */
function takeSlot({ call, redis, keys }: OpenClient, parent: ParentAddress, token: string): Promise<boolean> {
  const { pushing } = keys.parent(parent);
  return call(({ read }) => read(() => createLocks(redis, keys).hold(pushing, token, PUSH_LEASE_MS)));
}

/** What a process keeps of a parent between its rounds: its name at the slot, and behind which entry the next round begins. */
interface Place {
  readonly token: string;
  after: string;
}

interface Pushing {
  readonly parent: ParentAddress;
  readonly place: Place;
  readonly webhook: StoredWebhook;
}

/**
 * Goes through the channel once, from `place` on and around, with {@link AT_A_TIME} requests under way: one that is slow holds
 * up no other.
 */
async function pushAll(
  parts: PushParts,
  open: OpenClient,
  { parent, place, webhook }: Pushing,
): Promise<RoundOutcome> {
  const failed: PushAnswer[] = [];
  let [isTaken, isOurs] = [false, true];
  const renewal = every(parts.clock, PUSH_RENEW_MS, async () => {
    isOurs = await takeSlot(open, parent, place.token).catch(() => false);
  });
  const entries = entriesFrom(open, parent, place.after);
  let last = place.after;
  const pushInTurn = async () => {
    for await (const entry of entries) {
      if (!isOurs || failed.length >= MOST_FAILURES || parts.signal.aborted) return;
      last = entry.id;
      const answer = await pushOne(parts, open, parent, webhook, entry);
      if (answer.status === "taken") isTaken = true;
      else failed.push(answer);
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_A_TIME }, pushInTurn));
  } finally {
    renewal.cancel();
  }
  place.after = failed.some(({ status }) => status === "refused") ? last : OLDEST;
  return outcomeOf(failed, parts, isTaken ? 0 : webhook.failures);
}

/** The entries of a channel behind `begin` in their order, then those up to it; several may take from it side by side. */
async function* entriesFrom(
  open: OpenClient,
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
  { call, replies }: OpenClient,
  parent: ParentAddress,
  begin: string,
): AsyncGenerator<StreamEntry> {
  for (let after: string | undefined = begin; after !== undefined; ) {
    const from: string = after;
    const items = await call(({ read }) => read(() => replies.read(parent, from, PAGE_ENTRIES)));
    yield* items.filter(isReadable);
    after = items.at(-1)?.id;
  }
}

/** Does `work`, which never rejects, again and again, `ms` after its last end. */
function every(clock: Clock, ms: number, work: () => Promise<void>): { cancel(): void } {
  let isOver = false;
  let timer: { cancel(): void };
  const begin = () => {
    timer = clock.timeout(ms, () => void work().then(() => isOver || begin()));
  };
  begin();
  return {
    cancel() {
      isOver = true;
      timer.cancel();
    },
  };
}

function outcomeOf(failed: readonly PushAnswer[], parts: PushParts, failures: number): RoundOutcome {
  const gone = failed.find(({ status }) => status === "gone");
  const worst = gone ?? failed.at(-1);
  if (!worst || worst.status === "taken") return { status: "ok" };
  const { backoffMs = BACKOFF_MS, random = Math.random } = parts;
  const longest = Math.min(LONGEST_BACKOFF_MS, backoffMs * 2 ** Math.min(failures, 30));
  const waitMs = Math.ceil(longest * (0.5 + random() / 2));
  return { status: gone ? "gone" : "failed", problem: worst.problem, failures: failures + 1, waitMs };
}

/** One entry: acked when it was taken. An ack that fails leaves it in the channel; the receiver sees its id again. */
async function pushOne(
  { sender, logger }: PushParts,
  open: OpenClient,
  parent: ParentAddress,
  webhook: StoredWebhook,
  entry: StreamEntry,
): Promise<PushAnswer> {
  const answer = await sender.send(webhook, entry.entry);
  if (answer.status === "taken") await open.channels.take(parent, entry);
  else logger?.debug({ reply_id: entry.entry.reply_id, problem: answer.problem }, "A reply was not taken");
  return answer;
}
