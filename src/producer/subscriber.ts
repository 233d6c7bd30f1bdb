/**
 * The one subscriber connection of a client, for any number of channels.
 *
 * Owns: the connection, the channels and who watches them, and the slow tick. Its neighbours own what a message means.
 *
 * 1. Messages are hints and get lost. Whoever watches is told by `onGap` each time some may have been: when the
 *    subscription has just begun, after every reconnection, and at every slow tick in any case.
 * 2. `onGap` after a subscription comes when Redis has confirmed it: what is read then misses nothing.
 * 3. A connection that leaves a ping unanswered from one tick to the next is given up and opened anew.
 * 4. Nothing is open before the first `watch`; nothing ticks while nobody watches.
 */
import type { Clock } from "../shared/clock.ts";
import type { Link } from "./link.ts";

/** Time between two slow looks. */
export const SLOW_POLL_MS = 5_000;

/** Who watches a channel. No callback may throw. */
export interface Watcher {
  onMessage(text: string): void;
  onGap(): void;
  /** The subscriber was stopped: no message will come any more. */
  onStop(): void;
}

/** See the module's header. */
export interface Subscriber {
  /** Begins to watch; the function it returns ends that. */
  watch(channel: string, watcher: Watcher): () => void;
  /** Resolves when Redis answers over this connection, false when it did not within `withinMs`. */
  start(withinMs: number): Promise<boolean>;
  /** Closes the connection and forgets every watcher. Idempotent. */
  stop(): void;
}

/** A subscriber that opens its connection by `open` at the first use. */
export function createSubscriber(open: () => Link, clock: Clock): Subscriber {
  const watchers = new Map<string, Set<Watcher>>();
  let link: Link | undefined;
  let tick: { cancel(): void } | undefined;
  let pinging = false;
  let stopped = false;

  const gap = (channels: Iterable<string>) => {
    for (const channel of channels) for (const watcher of watchers.get(channel) ?? []) watcher.onGap();
  };
  const subscribe = (channels: string[]) => {
    if (channels.length === 0 || link?.redis.status !== "ready") return;
    // A failure is a lost connection: `ready` comes again and subscribes anew.
    link.redis.subscribe(...channels).then(
      () => gap(channels),
      () => {},
    );
  };
  const opened = () => {
    if (link) return link;
    const made = open();
    link = made;
    made.onReady(() => subscribe([...watchers.keys()]));
    made.redis.on("message", (channel: string, text: string) => {
      for (const watcher of watchers.get(channel) ?? []) watcher.onMessage(text);
    });
    return made;
  };
  const ping = () => {
    if (link?.redis.status !== "ready") return;
    if (pinging) return link.drop();
    pinging = true;
    const answered = () => {
      pinging = false;
    };
    link.redis.ping().then(answered, answered);
  };
  const onTick = () => {
    tick = clock.timeout(SLOW_POLL_MS, onTick);
    ping();
    gap(watchers.keys());
  };
  const unwatch = (channel: string, watcher: Watcher) => {
    const watching = watchers.get(channel);
    if (!watching?.delete(watcher) || watching.size > 0) return;
    watchers.delete(channel);
    if (link?.redis.status === "ready") link.redis.unsubscribe(channel).catch(() => {});
    if (watchers.size > 0) return;
    tick?.cancel();
    tick = undefined;
  };
  return {
    watch(channel, watcher) {
      if (stopped) return () => {};
      opened();
      const watching = watchers.get(channel) ?? new Set();
      watching.add(watcher);
      watchers.set(channel, watching);
      tick ??= clock.timeout(SLOW_POLL_MS, onTick);
      // Also for a channel that is subscribed already: the confirmation is what makes the first look complete.
      subscribe([channel]);
      return () => unwatch(channel, watcher);
    },
    start: (withinMs) => (stopped ? Promise.resolve(false) : opened().whenReady(withinMs)),
    stop() {
      stopped = true;
      const all = [...watchers.values()].flatMap((watching) => [...watching]);
      watchers.clear();
      for (const watcher of all) watcher.onStop();
      tick?.cancel();
      tick = undefined;
      link?.close();
    },
  };
}
