/**
 * The one subscriber connection of a client, for any number of channels; a parent's doorbell for a caller that looks by itself.
 *
 * Owns: the connection, the channels and who watches them, and the slow tick. Its neighbours own what a message means.
 *
 * 1. Messages are hints and get lost. A watcher is told by `onGap` each time some may have been: when its own
 *    watching has just begun, after every reconnection, and at every slow tick in any case.
 * 2. `onGap` after a subscription comes when Redis has confirmed it: what is read then misses nothing.
 * 3. A connection that leaves a ping unanswered from one tick to the next is given up and opened anew.
 * 4. Nothing is open before the first `watch`; nothing ticks without a watcher.
 */

import type { Clock } from "../shared/clock.ts";
import type { Keys, ParentAddress } from "../shared/protocol/keys.ts";
import { onAbort } from "../shared/stop-signal.ts";
import type { Connection } from "./redis-call.ts";

/** Time between two slow looks. */
export const SLOW_POLL_MS = 5_000;

/** What a watcher of a channel is told. No callback may throw. */
export interface Watcher {
  onMessage(text: string): void;
  /** `tick`: the slow tick, without a sign that anything was lost. */
  onGap(cause: "subscribed" | "tick"): void;
  /** The subscriber was stopped: no message will come any more. */
  onStop(): void;
}

/** See the module's header. */
export interface Subscriber {
  /** Begins to watch; the function it returns ends that. After `stop` the watcher is told `onStop` before this returns. */
  watch(channel: string, watcher: Watcher): () => void;
  /** Resolves when Redis answers over this connection, false when it did not within `withinMs`. */
  start(withinMs: number): Promise<boolean>;
  /** Closes the connection and forgets every watcher. Idempotent. */
  stop(): void;
}

/** A subscriber that opens its connection by `open` at the first use. */
export function createSubscriber(open: () => Connection, clock: Clock): Subscriber {
  return new ChannelSubscriber(open, clock);
}

class ChannelSubscriber implements Subscriber {
  readonly #open: () => Connection;
  readonly #clock: Clock;
  readonly #watchers = new Map<string, Set<Watcher>>();
  #connection: Connection | undefined;
  #tick: { cancel(): void } | undefined;
  #pinging = false;
  #stopped = false;

  constructor(open: () => Connection, clock: Clock) {
    this.#open = open;
    this.#clock = clock;
  }

  watch(channel: string, watcher: Watcher): () => void {
    if (this.#stopped) {
      watcher.onStop();
      return () => {};
    }
    const connection = this.#opened();
    const watching = this.#watchers.get(channel) ?? new Set();
    watching.add(watcher);
    this.#watchers.set(channel, watching);
    this.#tick ??= this.#clock.timeout(SLOW_POLL_MS, () => this.#onTick());
    // Also for a channel that is subscribed already: the confirmation is what makes the first look complete. Existing
    // watchers missed nothing and are not told: one that reacts by starting another watch would loop for ever.
    this.#subscribe(connection, [channel], () => {
      if (watching.has(watcher)) watcher.onGap("subscribed");
    });
    return () => this.#unwatch(channel, watcher);
  }

  start(withinMs: number): Promise<boolean> {
    return this.#stopped ? Promise.resolve(false) : this.#opened().whenReady(withinMs);
  }

  stop(): void {
    this.#stopped = true;
    const all = [...this.#watchers.values()].flatMap((watching) => [...watching]);
    this.#watchers.clear();
    for (const watcher of all) watcher.onStop();
    this.#rest();
    this.#connection?.close();
  }

  #opened(): Connection {
    if (this.#connection) return this.#connection;
    const connection = this.#open();
    this.#connection = connection;
    connection.onReady(() => {
      const channels = [...this.#watchers.keys()];
      this.#subscribe(connection, channels, () => this.#gap(channels, "subscribed"));
    });
    connection.redis.on("message", (channel: string, text: string) => {
      for (const watcher of this.#watchers.get(channel) ?? []) watcher.onMessage(text);
    });
    return connection;
  }

  #subscribe({ redis }: Connection, channels: string[], confirmed: () => void): void {
    if (channels.length === 0 || redis.status !== "ready") return;
    // A failure is a lost connection: `ready` comes again and subscribes anew.
    redis.subscribe(...channels).then(confirmed, () => {});
  }

  #unwatch(channel: string, watcher: Watcher): void {
    const watching = this.#watchers.get(channel);
    if (!watching?.delete(watcher) || watching.size > 0) return;
    this.#watchers.delete(channel);
    if (this.#connection?.redis.status === "ready")
      this.#connection.redis.unsubscribe(channel).catch(() => {});
    if (this.#watchers.size === 0) this.#rest();
  }

  #gap(channels: Iterable<string>, cause: "subscribed" | "tick"): void {
    for (const channel of channels)
      for (const watcher of this.#watchers.get(channel) ?? []) watcher.onGap(cause);
  }

  #onTick(): void {
    this.#tick = this.#clock.timeout(SLOW_POLL_MS, () => this.#onTick());
    this.#ping();
    this.#gap([...this.#watchers.keys()], "tick");
  }

  #ping(): void {
    if (this.#connection?.redis.status !== "ready") return;
    if (this.#pinging) {
      this.#connection.drop();
      return;
    }
    this.#pinging = true;
    const answered = () => {
      this.#pinging = false;
    };
    this.#connection.redis.ping().then(answered, answered);
  }

  #rest(): void {
    this.#tick?.cancel();
    this.#tick = undefined;
  }
}

/** The doorbell of a parent's channel: says when to look again. It is listened to until `close`, the abort of a signal, or the end of the client. */
export interface Doorbell {
  /** Resolves at the first ring or gap after it was called; at once when the doorbell is closed. */
  next(): Promise<void>;
  /** Rings a last time. Idempotent. */
  close(): void;
  readonly isClosed: boolean;
}

/** Listens to the doorbell of `parent`. */
export function listenToDoorbell(
  { subscriber, keys }: { subscriber: Subscriber; keys: Keys },
  parent: ParentAddress,
  signal?: AbortSignal,
): Doorbell {
  let waiting: (() => void)[] = [];
  let isClosed = false;
  let [forget, unwatch] = [() => {}, () => {}];
  const ring = () => {
    const rung = waiting;
    waiting = [];
    for (const resolve of rung) resolve();
  };
  const close = () => {
    if (isClosed) return;
    isClosed = true;
    forget();
    unwatch();
    ring();
  };
  unwatch = subscriber.watch(keys.parent(parent).doorbell, {
    onMessage: ring,
    onGap: ring,
    onStop: () => close(),
  });
  forget = onAbort(signal, close);
  return {
    next: () => (isClosed ? Promise.resolve() : new Promise<void>((resolve) => waiting.push(resolve))),
    close,
    get isClosed() {
      return isClosed;
    },
  };
}
