/**
 * The lease of one run: keeps it alive, counts running time, and says the moment it may be lost.
 * Neighbours: `settle`, `append` and `release` are fenced by the epoch in Redis; the lease stops work *before* that.
 *
 * 1. The lease counts from the moment a renewal was sent, on the monotonic clock.
 * 2. `isLive()` looks at the clock itself: a process that was stopped knows before any of its timers fires.
 * 3. Once lost or given up it is never live again, and nothing that was begun under it goes on.
 */
import { setMaxListeners } from "node:events";
import type { Clock } from "../shared/clock.ts";
import type { AgentAddress } from "../shared/protocol/keys.ts";
import type { AgentStore } from "../shared/redis/agent-store.ts";

/** What a renewal brought along. */
export interface LeaseNews {
  unreadMessages: number;
  finish: boolean;
}

/** See the module's header. */
export interface Lease {
  readonly epoch: number;
  /** Running time of the run before this claim, ms. */
  readonly earlierMs: number;
  /** Aborts when the lease is lost or given up: nothing may be called or started any more, what runs is cut off. */
  readonly signal: AbortSignal;
  isLive(): boolean;
  /** Running time of the run, ms, that of earlier claims included. */
  runningMs(): number;
  /** Waits for `wait` while the run's time stands still; the lease goes on. */
  rest(wait: Promise<void>): Promise<void>;
  /** Renews at once, e.g. because the run may have been destroyed. */
  check(): Promise<void>;
  /** Gives the lease up: the run is over, handed back, or known to be another's. Idempotent. */
  stop(): void;
}

/** What {@link holdLease} needs. */
export interface LeaseOptions {
  store: AgentStore;
  clock: Clock;
  address: AgentAddress;
  epoch: number;
  /** Monotonic ms at which the claim was sent. */
  claimedAtMs: number;
  /** Running time of the run before this claim. */
  earlierMs: number;
  onNews(news: LeaseNews): void;
}

/** Starts to hold the lease that a claim gave. */
export function holdLease(options: LeaseOptions): Lease {
  const { store, clock, address, epoch, claimedAtMs, earlierMs } = options;
  const { leaseMs, leaseMarginMs, renewMs } = store.timing;
  const lost = new AbortController();
  // One listener for each step at work: a turn may ask for any number of tools at once.
  setMaxListeners(0, lost.signal);
  let liveUntilMs = claimedAtMs + leaseMs - leaseMarginMs;
  let renewal: { cancel(): void } | undefined;
  let expiry: { cancel(): void } | undefined;

  const isLive = () => !lost.signal.aborted && clock.monotonicMs() < liveUntilMs;
  const { runningMs, rest } = meterFrom(clock, claimedAtMs, earlierMs);
  const stop = () => {
    renewal?.cancel();
    expiry?.cancel();
    lost.abort();
  };
  const watchExpiry = () => {
    expiry?.cancel();
    expiry = clock.timeout(Math.max(0, liveUntilMs - clock.monotonicMs()), () =>
      isLive() ? watchExpiry() : stop(),
    );
  };
  const check = async () => {
    if (lost.signal.aborted) return;
    const sentAtMs = clock.monotonicMs();
    const answer = await store.renew(address, epoch, runningMs()).catch(() => undefined);
    if (lost.signal.aborted || !answer) return;
    if (answer.status === "stale") return stop();
    liveUntilMs = Math.max(liveUntilMs, sentAtMs + leaseMs - leaseMarginMs);
    if (!isLive()) return stop();
    options.onNews({ unreadMessages: Number(answer.inbox), finish: answer.finish === "1" });
  };
  const scheduleRenewal = () => {
    renewal = clock.timeout(renewMs, () => {
      scheduleRenewal();
      void check();
    });
  };
  watchExpiry();
  scheduleRenewal();
  return { epoch, earlierMs, signal: lost.signal, isLive, runningMs, rest, check, stop };
}

/** The running time of a run: it goes on with the clock, and stands still while the run rests. */
function meterFrom(clock: Clock, fromMs: number, earlierMs: number): Pick<Lease, "runningMs" | "rest"> {
  let restedMs = 0;
  let restingSinceMs: number | undefined;
  return {
    runningMs: () => earlierMs + (restingSinceMs ?? clock.monotonicMs()) - fromMs - restedMs,
    async rest(wait) {
      const sinceMs = clock.monotonicMs();
      restingSinceMs = sinceMs;
      await wait;
      restedMs += clock.monotonicMs() - sinceMs;
      restingSinceMs = undefined;
    },
  };
}
