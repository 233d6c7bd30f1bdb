/**
 * The leases of this process' runs: renews them, counts running time, and tells at once when one may have expired. Neighbours:
 * every write is fenced by the epoch in Redis; the lease stops work *before* that.
 *
 * 1. A lease counts from the moment a renewal was sent, on the monotonic clock.
 * 2. `isLive()` reads the clock itself: a process that was stopped knows before any of its timers fires.
 * 3. Once ended, a lease is never live again, and all work that was begun under it stops.
 * 4. One timer renews all leases, and ends those that could not be renewed in time.
 * 5. A process holds an agent once: if it claims its own run again, the lease of the earlier claim ends.
 */
import type { Clock } from "../../shared/clock.ts";
import type { AgentAddress } from "../../shared/protocol/keys.ts";
import type { AgentStore } from "../../shared/redis/agent-store.ts";
import { StopSignal } from "../../shared/stop-signal.ts";
import type { WriteRetry } from "./write-retry.ts";

/**
 * Reason why a lease ended. `expired`: it could not be renewed in time; Redis may know no other holder. `taken`: by Redis'
 * answer the run is over or another claim has it; only costs are still booked. `given_up`: this process has done its part.
 */
export type LeaseEnd = "expired" | "taken" | "given_up";

/** News from the answer of a renewal or a commit. */
export interface HolderStatus {
  /** Number of unread messages in Redis. */
  inbox: number;
  finish: boolean;
  /** True if a subscriber listens to the parent's events. */
  watched: boolean;
}

/** Data of a claim that its lease needs. */
export interface LeaseGrant {
  address: AgentAddress;
  epoch: number;
  /** Id under which Redis records that the first call may be under way. */
  claimId: string;
  /** Monotonic ms at which the claim was sent. */
  claimedAtMs: number;
  /** Running time of the run before this claim, ms. */
  earlierMs: number;
}

interface LeaseContext {
  store: Pick<AgentStore, "renew" | "timing">;
  clock: Clock;
  /** Repeats renewals that Redis refuses for a while; default: none is repeated. */
  retry?: WriteRetry;
}

const once: WriteRetry = (send) => send();

/** See the module's header. */
export class Lease {
  readonly address: AgentAddress;
  readonly epoch: number;
  readonly claimId: string;
  readonly earlierMs: number;
  /** Stops work under way: when the lease ends, a step broke, or the process cannot wait. */
  readonly workStop = new StopSignal();
  /** Called with the news of a renewal. */
  onStatus: (news: HolderStatus) => void = ignore;
  readonly #context: LeaseContext;
  readonly #claimedAtMs: number;
  #liveUntilMs: number;
  #renewedAtMs: number;
  #end: LeaseEnd | undefined;
  #restedMs = 0;
  #restingSinceMs: number | undefined;

  constructor(context: LeaseContext, { address, epoch, claimId, claimedAtMs, earlierMs }: LeaseGrant) {
    const { leaseMs, leaseMarginMs } = context.store.timing;
    this.#context = context;
    this.address = address;
    this.epoch = epoch;
    this.claimId = claimId;
    this.earlierMs = earlierMs;
    this.#claimedAtMs = claimedAtMs;
    this.#renewedAtMs = claimedAtMs;
    this.#liveUntilMs = claimedAtMs + leaseMs - leaseMarginMs;
  }

  /** Reason of its end; undefined while it has not ended, or this process has not noticed. */
  get endReason(): LeaseEnd | undefined {
    return this.#end;
  }

  isLive(): boolean {
    return this.#end === undefined && this.#context.clock.monotonicMs() < this.#liveUntilMs;
  }

  /** Returns the running time of the run, ms, earlier claims included; it stands still while the run rests. */
  runningMs(): number {
    const untilMs = this.#restingSinceMs ?? this.#context.clock.monotonicMs();
    return this.earlierMs + untilMs - this.#claimedAtMs - this.#restedMs;
  }

  /** Waits for `ms`, or until the lease ends; the run's time stands still. */
  async rest(ms: number): Promise<void> {
    const { clock } = this.#context;
    const sinceMs = clock.monotonicMs();
    this.#restingSinceMs = sinceMs;
    await clock.sleep(ms, this.workStop.signal);
    this.#restedMs += clock.monotonicMs() - sinceMs;
    this.#restingSinceMs = undefined;
  }

  /** Renews at once, e.g. because the run may have been destroyed. Never rejects. */
  async renew(): Promise<void> {
    const { clock, store, retry = once } = this.#context;
    let sentAtMs = clock.monotonicMs();
    this.#renewedAtMs = sentAtMs;
    const answer = await retry(async () => {
      // Checked before each try: Redis may refuse writes for hours, and a lease that has ended must not go on asking.
      if (this.#end) return undefined;
      sentAtMs = clock.monotonicMs();
      return store.renew(this.address, { epoch: this.epoch, running_ms: this.runningMs() });
    }).catch(() => undefined);
    if (this.#end || !answer) return;
    if (answer.status === "stale") return this.end("taken");
    const { leaseMs, leaseMarginMs } = store.timing;
    this.#liveUntilMs = Math.max(this.#liveUntilMs, sentAtMs + leaseMs - leaseMarginMs);
    if (!this.isLive()) return this.end("expired");
    this.onStatus(answer);
  }

  /** Ends the lease, and all work under it. Only the first reason counts. */
  end(why: LeaseEnd): void {
    this.#end ??= why;
    this.workStop.stop();
    // An old table of the keeper's map may keep this lease alive for long (`linked-list.ts`); the run must not stay with it.
    this.onStatus = ignore;
  }

  /** Ends or renews the lease if that is due. */
  tick(nowMs: number): void {
    if (this.#end) return;
    if (nowMs >= this.#liveUntilMs) this.end("expired");
    else if (nowMs >= this.#renewedAtMs + this.#context.store.timing.renewMs) void this.renew();
  }
}

/** Ticks between two renewals: the expiry of a lease is noticed within one tick. */
const TICKS_A_RENEWAL = 8;

/** Holds the leases of a process. */
export class LeaseKeeper {
  readonly #context: LeaseContext;
  readonly #leases = new Map<string, Lease>();
  /** Agents that are being claimed: by how many wakes, and whether to ask Redis about them as soon as their lease is held. */
  readonly #claiming = new Map<string, { wakes: number; isAsked: boolean }>();
  #timer: { cancel(): void } | undefined;

  constructor(context: LeaseContext) {
    this.#context = context;
  }

  /** The leases held now, by uid. */
  get held(): ReadonlyMap<string, Lease> {
    return this.#leases;
  }

  /** Notes that the agent is being claimed: a request to ask Redis about it is remembered until its lease is held. */
  beginClaim(uid: string): void {
    const claiming = this.#claiming.get(uid);
    if (claiming) claiming.wakes += 1;
    else this.#claiming.set(uid, { wakes: 1, isAsked: false });
  }

  /** Notes the end of a claim, with or without a lease. */
  endClaim(uid: string): void {
    const claiming = this.#claiming.get(uid);
    if (!claiming) return;
    claiming.wakes -= 1;
    if (claiming.wakes === 0) this.#claiming.delete(uid);
  }

  /** Asks Redis at once, because something may have happened to the agent. */
  askAbout(uid: string): void {
    const claiming = this.#claiming.get(uid);
    if (claiming) claiming.isAsked = true;
    void this.#leases.get(uid)?.renew();
  }

  /** Holds a lease for the answer of a claim. */
  hold(grant: LeaseGrant): Lease {
    const { uid } = grant.address;
    // Redis' clock jumped, or this process was late: by its answer the earlier claim is over.
    this.#leases.get(uid)?.end("taken");
    const lease = new Lease(this.#context, grant);
    this.#leases.set(uid, lease);
    this.#timer ??= this.#schedule();
    if (this.#claiming.get(uid)?.isAsked) void lease.renew();
    this.endClaim(uid);
    return lease;
  }

  /** Stops work under way in every run, because the process cannot wait any longer. */
  interruptAll(): void {
    for (const lease of this.#leases.values()) lease.workStop.stop();
  }

  /** Ends `lease` and forgets it. If it ended earlier, this process may hold the agent again already. */
  drop(lease: Lease): void {
    lease.end("given_up");
    const { uid } = lease.address;
    if (this.#leases.get(uid) === lease) this.#leases.delete(uid);
    if (this.#leases.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #schedule(): { cancel(): void } {
    const { clock, store } = this.#context;
    return clock.timeout(store.timing.renewMs / TICKS_A_RENEWAL, () => {
      const nowMs = clock.monotonicMs();
      for (const lease of this.#leases.values()) lease.tick(nowMs);
      this.#timer = this.#leases.size > 0 ? this.#schedule() : undefined;
    });
  }
}

function ignore(): void {}
