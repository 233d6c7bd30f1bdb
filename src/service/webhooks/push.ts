/**
 * Pushes replies, questions and messages to the URLs of their parents.
 *
 * Owns: the slots of this process, and the parents that rang and wait for one. Redis stores which process has the slot of a
 * parent and when a retry is due, so any number of API processes may run.
 *
 * 1. An entry is acked after the receiver answered 2xx, never before: if a receiver or a process dies in between, the
 *    receiver gets the same `webhook-id` again.
 * 2. A round ends at its third failure; the next one begins after a back-off, possibly in another process. The back-off doubles
 *    while no entry is taken. Refused entries do not block others: while the receiver takes entries, those that no round has
 *    tried are pushed at once, and so are those that arrive meanwhile. Only after a round whose failures were all without an
 *    answer, nothing is pushed during the back-off.
 * 3. The verb that writes an entry rings, which begins a round at once. If this process has not listened for a while, it walks
 *    through all parents when it listens again. A slow walk finds parents whose ring was lost: one page at every tick of
 *    the subscriber, for any number of parents.
 * 4. At most one process pushes for a parent at a time. If a process dies, others take its slots {@link LEASE_MS} after its last
 *    renewal, without delay: each process knows when the next slot expires. A parent that waits there for its tenant's room
 *    comes after {@link CROWDED_MS}.
 * 5. At most {@link MOST_SLOTS} parents have a slot at a time, at most half of them of one tenant. Tenants with waiting parents
 *    take turns; the parents of one tenant begin in the order of their rings.
 */

import type { Client } from "../../producer/client.ts";
import { internalsOf } from "../../producer/client.ts";
import type { ClientResources } from "../../producer/client-resources.ts";
import { type Clock, systemClock } from "../../shared/clock.ts";
import type { ResolveName } from "../../shared/dns.ts";
import { messageOf } from "../../shared/errors.ts";
import type { Logger } from "../../shared/logger.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import { type ParentAddress, parentMember, parentOfMember } from "../../shared/protocol/keys.ts";
import { PageBounds } from "../../shared/redis/page-bounds.ts";
import { createWebhookSlots, type PushRetry } from "../../shared/redis/webhook-slot.ts";
import { createWebhooks } from "../../shared/redis/webhooks.ts";
import { createStartable } from "../../shared/start-stop.ts";
import { whenAborted } from "../../shared/stop-signal.ts";
import type { Reach } from "./address.ts";
import { type PushParts, pushParent, type RoundEnd } from "./parent-push.ts";
import { createSender, type PushAnswer, type WebhookSender } from "./request.ts";

/** Options of the webhook push. */
export interface WebhookPushOptions {
  client: Client;
  /** Default `public`: only addresses of the public internet, over https. */
  reach?: Reach;
  /** Back-off after the first failed round, ms, default 1,000; doubles up to an hour. */
  backoffMs?: number;
  clock?: Clock;
  logger?: Logger;
  /** Called with the meaning of each answer. */
  onAnswer?: (status: PushAnswer["status"]) => void;
  /** Characters of entries that this process holds for one tenant, at most two pages more, default 64 Mi; for tests. */
  mostHeldChars?: number;
  /** Returns a random number from 0 to 1; for tests. */
  random?: () => number;
  /** Resolves host names, default with the sources of the system; for tests. */
  resolve?: ResolveName;
}

/** See the module's header. */
export interface WebhookPush {
  /** Starts pushing. Idempotent. */
  start(): void;
  /** Stops pushing until the next start; aborts running requests, whose entries stay in the channel. Idempotent. */
  stop(): Promise<void>;
}

/** A process keeps its slots this long after their last renewal. */
const LEASE_MS = 5_000;
/** Interval of the renewals while a process has slots. */
const KEEP_MS = 1_000;
/** Other processes leave a due parent that waits here for its tenant's room this long, so that it is not taken at each check. */
const CROWDED_MS = 30_000;
const MOST_SLOTS = 128;
/** So slow receivers of one tenant never block those of other tenants. */
const MOST_SLOTS_OF_TENANT = MOST_SLOTS / 2;
/** Page size, in parents with a webhook, of the walk at a tick and of the walk through all parents. */
const TICK_PAGE = 200;
const WALK_PAGE = 1_000;
const BACKOFF_MS = 1_000;
/** Delay after a failure of Redis. */
const RETRY_MS = 1_000;

/** Creates a push over `client`, not started. */
export function createWebhookPush(options: WebhookPushOptions): WebhookPush {
  const { client, reach = "public", clock = systemClock, logger } = options;
  const { backoffMs = BACKOFF_MS, random = Math.random, onAnswer = () => {} } = options;
  const run = async (sender: WebhookSender, signal: AbortSignal) => {
    const open = await opened(client, clock, signal);
    if (!open) return;
    const webhooks = createWebhooks(open.redis, open.keys);
    const slots = createWebhookSlots(open.redis, open.keys);
    const bounds = new PageBounds(options.mostHeldChars);
    const parts = { sender, open, webhooks, slots, bounds, signal, backoffMs, random, onAnswer, logger };
    await new Pusher(parts, clock).run();
  };
  return createStartable(() => {
    const sender = createSender(reach, clock, options.resolve);
    const over = new AbortController();
    const running = run(sender, over.signal);
    return async () => {
      over.abort();
      await sender.close();
      await running;
    };
  });
}

/** Opens the resources of `client`; undefined if `signal` aborts before. */
async function opened(
  client: Client,
  clock: Clock,
  signal: AbortSignal,
): Promise<ClientResources | undefined> {
  while (!signal.aborted) {
    const open = await internalsOf(client)
      .open()
      .catch(() => undefined);
    if (open) return open;
    await clock.sleep(RETRY_MS, signal);
  }
  return undefined;
}

/** One parent for which this process pushes. */
interface Slot {
  readonly parent: ParentAddress;
  /** Monotonic clock, counted from the moment at which the command was sent; 0: not held yet. */
  heldUntilMs: number;
  /** Time until refused entries are tried again; until then only newer ones are pushed. */
  retryInMs: number | undefined;
  /** A ring came after the round began. */
  hasNewRing: boolean;
}

const NOT_HELD = { heldUntilMs: 0, retryInMs: undefined };

class Pusher {
  readonly #parts: PushParts;
  readonly #clock: Clock;
  readonly #token = newRequestKey();
  readonly #slots = new Map<string, Slot>();
  readonly #ends = new Set<Promise<void>>();
  /** Parents that rang and have no slot yet, by tenant, each once: so at most all parents with a webhook. */
  readonly #rung = new Map<string, Set<string>>();
  #timer: { readonly atMs: number; cancel(): void } | undefined;
  #cursor = "0";
  #walking: Promise<void> | undefined;
  #isWalkAsked = false;

  constructor(parts: PushParts, clock: Clock) {
    this.#parts = parts;
    this.#clock = clock;
  }

  /** Pushes until the signal aborts; resolves when all rounds have ended. */
  async run(): Promise<void> {
    const { open, signal } = this.#parts;
    const unwatch = open.subscriber.watch(open.keys.webhookDoorbell, {
      onMessage: (member) => this.#ring(member),
      onGap: (cause) => this.#walk(cause),
      onStop: () => {},
    });
    this.#checkIn(0);
    await whenAborted(signal);
    unwatch();
    this.#timer?.cancel();
    await this.#walking;
    await Promise.all(this.#ends);
  }

  #ring(member: string): void {
    const slot = this.#slots.get(member);
    if (slot) slot.hasNewRing = true;
    else this.#wait(member);
    this.#fill();
  }

  #wait(member: string): void {
    const parent = parentOfMember(member);
    if (!parent) return;
    const waiting = this.#rung.get(parent.tenant) ?? new Set();
    this.#rung.set(parent.tenant, waiting.add(member));
  }

  /** Begins rounds for waiting parents until the slots are full. */
  #fill(): void {
    for (const [tenant, waiting] of this.#rung) {
      if (this.#slots.size >= MOST_SLOTS) return;
      if (!this.#hasRoomFor(tenant)) continue;
      const [member] = waiting;
      // Moves the tenant behind the others; this loop visits it again there.
      this.#rung.delete(tenant);
      if (member === undefined) continue;
      waiting.delete(member);
      if (waiting.size > 0) this.#rung.set(tenant, waiting);
      this.#begin(member);
    }
  }

  #hasRoomFor(tenant: string): boolean {
    let taken = 0;
    for (const { parent } of this.#slots.values()) if (parent.tenant === tenant) taken += 1;
    return taken < MOST_SLOTS_OF_TENANT;
  }

  /** Begins a round; `held`: this process already has the slot. */
  #begin(member: string, held: Pick<Slot, "heldUntilMs" | "retryInMs"> = NOT_HELD): void {
    const parent = parentOfMember(member);
    if (!parent || this.#parts.signal.aborted) return;
    const slot: Slot = { parent, ...held, hasNewRing: false };
    this.#slots.set(member, slot);
    const end = this.#take(slot)
      .catch((error: unknown) => {
        this.#parts.logger?.debug({ problem: messageOf(error) }, "A round of webhooks broke off; again soon");
        return "broken" as const;
      })
      .then((next) => {
        this.#slots.delete(member);
        this.#ends.delete(end);
        if (next !== "none" || slot.hasNewRing) this.#wait(member);
        // An aborted round begins again at the next check, because Redis may be unavailable.
        if (next === "broken") this.#checkIn(RETRY_MS);
        else this.#fill();
      });
    this.#ends.add(end);
  }

  /** Runs one round, from taking the slot to releasing it; `next`: this process begins the next round. */
  async #take(slot: Slot): Promise<"none" | "next"> {
    const { open, slots } = this.#parts;
    const { parent } = slot;
    if (slot.heldUntilMs === 0) {
      const sentMs = this.#clock.monotonicMs();
      const lease = { token: this.#token, ms: LEASE_MS };
      const begun = await open.read(() => slots.begin(parent, lease));
      if (!begun) return "none";
      slot.heldUntilMs = sentMs + LEASE_MS;
      slot.retryInMs = begun.retryInMs;
    }
    this.#checkIn(KEEP_MS);
    const isOurs = () => this.#clock.monotonicMs() < slot.heldUntilMs;
    const round = await pushParent(this.#parts, parent, isOurs, slot.retryInMs);
    return (await this.#end(parent, round)) ? "next" : "none";
  }

  async #end(parent: ParentAddress, round: RoundEnd): Promise<boolean> {
    const { open, webhooks, slots } = this.#parts;
    const isNextOurs = await open.read(() => slots.end(parent, this.#token, retryOf(round)));
    if (round.status === "stopped") await open.read(() => webhooks.ring(parent));
    if ("waitMs" in round) this.#checkIn(round.waitMs);
    return isNextOurs || round.status === "more" || (round.status === "refused" && round.hasMore);
  }

  #checkIn(ms: number): void {
    const atMs = this.#clock.monotonicMs() + ms;
    if (this.#parts.signal.aborted || (this.#timer && this.#timer.atMs <= atMs)) return;
    this.#timer?.cancel();
    const timer = this.#clock.timeout(ms, () => {
      this.#timer = undefined;
      void this.#check().then((nextMs) => this.#checkIn(nextMs));
    });
    this.#timer = { atMs, cancel: () => timer.cancel() };
  }

  /** Renews the slots of this process and takes due ones; resolves with the delay of the next check, ms. */
  async #check(): Promise<number> {
    const { open, slots, logger } = this.#parts;
    const held = [...this.#slots].filter(([, { heldUntilMs }]) => heldUntilMs > 0);
    const room = Math.max(0, MOST_SLOTS - this.#slots.size);
    const heldUntilMs = this.#clock.monotonicMs() + LEASE_MS;
    const lease = { token: this.#token, ms: LEASE_MS };
    const kept = held.map(([member]) => member);
    try {
      const due = await open.read(() => slots.due(lease, kept, room));
      const lost = new Set(due.lost);
      for (const [member, slot] of held) slot.heldUntilMs = lost.has(member) ? 1 : heldUntilMs;
      const retries = new Map(due.resting.map((each) => [each.member, each.retry_in_ms]));
      const crowded: string[] = [];
      for (const member of due.taken)
        if (!this.#takeOver(member, { heldUntilMs, retryInMs: retries.get(member) })) crowded.push(member);
      if (crowded.length > 0) await open.read(() => slots.due({ ...lease, ms: CROWDED_MS }, crowded, 0));
      this.#fill();
      const longestMs = this.#slots.size > 0 ? KEEP_MS : LEASE_MS;
      return room === 0 ? KEEP_MS : Math.min(longestMs, due.next_ms ?? longestMs);
    } catch (error) {
      logger?.debug({ problem: messageOf(error) }, "Slots to push could not be kept; again soon");
      return RETRY_MS;
    }
  }

  /** Begins a round in a taken due slot; false if the tenant has no room: the parent waits. */
  #takeOver(member: string, held: Pick<Slot, "heldUntilMs" | "retryInMs">): boolean {
    const tenant = parentOfMember(member)?.tenant;
    if (tenant === undefined || this.#slots.has(member)) return true;
    if (!this.#hasRoomFor(tenant)) {
      this.#wait(member);
      return false;
    }
    this.#rung.get(tenant)?.delete(member);
    this.#begin(member, held);
    return true;
  }

  /** Walks one page at a tick, and all pages after a subscription, when rings may have been lost. */
  #walk(cause: "subscribed" | "tick"): void {
    if (cause === "subscribed") this.#isWalkAsked = true;
    this.#walking ??= this.#walkPages()
      .catch((error: unknown) => {
        this.#parts.logger?.debug({ problem: messageOf(error) }, "Webhooks could not be listed; again soon");
      })
      .finally(() => {
        this.#walking = undefined;
      });
  }

  async #walkPages(): Promise<void> {
    if (!this.#isWalkAsked) {
      this.#cursor = await this.#page(this.#cursor, TICK_PAGE);
      return;
    }
    this.#isWalkAsked = false;
    try {
      for (let cursor = await this.#page("0", WALK_PAGE); cursor !== "0"; )
        cursor = await this.#page(cursor, WALK_PAGE);
    } catch (error) {
      this.#isWalkAsked = true;
      throw error;
    }
  }

  async #page(cursor: string, count: number): Promise<string> {
    const { open, slots, signal } = this.#parts;
    if (signal.aborted) return "0";
    const page = await open.read(() => slots.page(cursor, count));
    for (const parent of page.parents) this.#ring(parentMember(parent));
    return page.cursor;
  }
}

function retryOf(round: RoundEnd): PushRetry | undefined {
  if (round.status === "done") return undefined;
  return "waitMs" in round
    ? { inMs: round.waitMs, isRefused: round.status !== "failed" }
    : { inMs: 0, isRefused: false };
}
