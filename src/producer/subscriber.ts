/**
 * The one subscriber connection of a client, for any number of channels; also a parent's doorbell for callers that read the
 * stream themselves.
 *
 * Owns: the connection, the channels and their watchers, and the slow tick. Its neighbours interpret the messages.
 *
 * 1. Messages are hints and may be lost. `onGap` notifies a watcher each time some may have been lost: when its watch has
 *    just begun, after every reconnection, and at every slow tick in any case.
 * 2. `onGap` after a subscription comes after Redis has confirmed it: a read after that misses nothing.
 * 3. A connection that leaves a ping unanswered from one tick to the next is dropped and reopened.
 * 4. Nothing is open before the first `watch`; nothing ticks without a watcher.
 */

import type { Clock } from "../shared/clock.ts";
import type { Keys, ParentAddress } from "../shared/protocol/keys.ts";
import { onAbort } from "../shared/stop-signal.ts";
import type { Connection } from "./redis-call.ts";

/** Time between two slow ticks. */
export const SLOW_POLL_MS = 5_000;
/** Channels whose watchers are notified in one turn of the event loop: a watcher may read its stream and a record for each wait. */
const CHANNELS_A_TURN = 100;
/** Channels of one SUBSCRIBE after a reconnection: some milliseconds of Redis, which serves others before the next one. */
const CHANNELS_A_COMMAND = 1_000;

/** Callbacks of a channel's watcher. They must not throw. */
export interface Watcher {
  onMessage(text: string): void;
  /** Messages may have been lost. `tick`: the slow tick, without a sign of a loss. */
  onGap(cause: "subscribed" | "tick"): void;
  /** The subscriber was stopped: no further message will come. */
  onStop(): void;
}

/** See the module's header. */
export interface Subscriber {
  /** Begins to watch; the returned function ends the watch. After `stop` it calls `onStop` before it returns. */
  watch(channel: string, watcher: Watcher): () => void;
  /** Resolves with true when Redis answers over this connection, with false if it does not within `withinMs`. */
  start(withinMs: number): Promise<boolean>;
  /** Calls every watcher's `onStop` and closes the connection. Idempotent. */
  stop(): void;
}

/** Creates a subscriber that opens its connection with `open` at the first use. */
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
    // Also subscribes a channel that is already subscribed: the confirmation makes the first read complete. Existing watchers
    // missed nothing and are not notified: a watcher that starts another watch in `onGap` would loop for ever.
    void this.#subscribe(connection, [channel]).then((isConfirmed) => {
      if (isConfirmed && watching.has(watcher)) watcher.onGap("subscribed");
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
    connection.onReady(() => void this.#subscribeAll(connection));
    connection.redis.on("message", (channel: string, text: string) => {
      for (const watcher of this.#watchers.get(channel) ?? []) watcher.onMessage(text);
    });
    return connection;
  }

  /** Subscribes every channel again, some at a time, and notifies its watchers. */
  async #subscribeAll(connection: Connection): Promise<void> {
    const channels = [...this.#watchers.keys()];
    for (let from = 0; from < channels.length; from += CHANNELS_A_COMMAND) {
      // The watch of a channel may have ended while the ones before it were subscribed.
      const page = channels
        .slice(from, from + CHANNELS_A_COMMAND)
        .filter((channel) => this.#watchers.has(channel));
      if (!(await this.#subscribe(connection, page))) return;
      await this.#gap(page, "subscribed");
    }
  }

  /** Resolves with false if the connection is lost: the next `ready` event subscribes again. */
  async #subscribe({ redis }: Connection, channels: string[]): Promise<boolean> {
    if (redis.status !== "ready") return false;
    if (channels.length === 0) return true;
    return redis.subscribe(...channels).then(
      () => true,
      () => false,
    );
  }

  #unwatch(channel: string, watcher: Watcher): void {
    const watching = this.#watchers.get(channel);
    if (!watching?.delete(watcher) || watching.size > 0) return;
    this.#watchers.delete(channel);
    if (this.#connection?.redis.status === "ready")
      this.#connection.redis.unsubscribe(channel).catch(() => {});
    if (this.#watchers.size === 0) this.#rest();
  }

  async #gap(channels: readonly string[], cause: "subscribed" | "tick"): Promise<void> {
    for (const [number, channel] of channels.entries()) {
      if (number > 0 && number % CHANNELS_A_TURN === 0) await new Promise(setImmediate);
      for (const watcher of this.#watchers.get(channel) ?? []) watcher.onGap(cause);
    }
  }

  #onTick(): void {
    this.#tick = this.#clock.timeout(SLOW_POLL_MS, () => this.#onTick());
    this.#ping();
    void this.#gap([...this.#watchers.keys()], "tick");
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

/** The doorbell of a parent's channel: says when to read again, until `close`, the signal's abort or the client's stop. */
export interface Doorbell {
  /** Resolves at the first ring or gap after this call; at once if the doorbell is closed. */
  next(): Promise<void>;
  /** Rings a last time and ends the watch. Idempotent. */
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
