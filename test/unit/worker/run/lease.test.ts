/** Guarantee: a run stops before another worker may claim it, whatever becomes of its renewals. Under a hand clock. */
import { expect, test } from "vitest";
import type { AgentAddress } from "../../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import type { AgentStore } from "../../../../src/shared/redis/agent-store.ts";
import { type HolderStatus, LeaseKeeper } from "../../../../src/worker/run/lease.ts";
import type { WriteRetry } from "../../../../src/worker/run/write-retry.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const { leaseMs, renewMs, leaseMarginMs } = TIMING;
const USABLE_MS = leaseMs - leaseMarginMs;
/** A lease is looked at eight times between two renewals. */
const TICK_MS = renewMs / 8;
const NEWS: HolderStatus = { inbox: 0, finish: false, watched: false };

type Renew = AgentStore["renew"];
type Renewal = Awaited<ReturnType<Renew>>;

const addressOf = (uid: string): AgentAddress => ({ tenant: "t", parentId: "p", uid });

/** Resolves when everything that can go on without time has gone on. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A keeper whose renewals wait until the test answers them, the oldest first. */
function scene() {
  const clock = handClock();
  const sent: { uid: string; atMs: number; runningMs: number; epoch: number }[] = [];
  const waiting: { resolve(answer: Renewal): void; reject(error: Error): void }[] = [];
  const renew: Renew = (address, input) =>
    new Promise((resolve, reject) => {
      sent.push({
        uid: address.uid,
        atMs: clock.monotonicMs(),
        runningMs: input.running_ms ?? Number.NaN,
        epoch: input.epoch,
      });
      waiting.push({ resolve, reject });
    });
  const keeper = new LeaseKeeper({ clock, store: { renew, timing: TIMING } });
  const hold = (more: { uid?: string; claimedAtMs?: number; earlierMs?: number } = {}) => {
    const { uid = "a", claimedAtMs = clock.monotonicMs(), earlierMs = 0 } = more;
    return keeper.hold({ address: addressOf(uid), epoch: 7, claimId: "claim", claimedAtMs, earlierMs });
  };
  /** Answers a renewal and lets what follows happen. */
  const answer = async (how: Partial<HolderStatus> | "taken" | "lost" = {}) => {
    const renewal = waiting.shift();
    if (how === "lost") renewal?.reject(new Error("the connection is gone"));
    else if (how === "taken") renewal?.resolve({ status: "stale" });
    else renewal?.resolve({ status: "ok", ...NEWS, ...how });
    await settled();
  };
  return { clock, keeper, hold, sent, answer, sentAt: () => sent.map(({ atMs }) => atMs) };
}

test("a lease ends its margin before Redis' does, counted from the sending of the claim, and cuts off what goes on", () => {
  const { clock, hold } = scene();
  clock.advance(1_000);
  const lease = hold({ claimedAtMs: 0 });
  clock.advance(USABLE_MS - 1_000 - 1);
  expect(lease.isLive()).toBe(true);
  clock.advance(1);
  expect(lease.isLive()).toBe(false);
  clock.advance(TICK_MS);
  expect(lease.endReason).toBe("expired");
  expect(lease.workStop.isStopped).toBe(true);
});

test("a process that was stopped knows by its clock, before any of its timers, that its lease is over", () => {
  const frozen = { ms: 0 };
  const { timeout, sleep, now } = handClock();
  const clock = { now, timeout, sleep, monotonicMs: () => frozen.ms };
  const renew: Renew = () => Promise.resolve({ status: "ok", ...NEWS });
  const keeper = new LeaseKeeper({ clock, store: { renew, timing: TIMING } });
  const lease = keeper.hold({
    address: addressOf("a"),
    epoch: 1,
    claimId: "c",
    claimedAtMs: 0,
    earlierMs: 0,
  });
  expect(lease.isLive()).toBe(true);
  frozen.ms = USABLE_MS;
  expect(lease.isLive()).toBe(false);
});

test("it is renewed every renewal interval for as long as the run goes on, so that two renewals may be lost", async () => {
  const { clock, hold, sent, sentAt, answer } = scene();
  const lease = hold();
  for (let i = 0; i < 4; i++) {
    clock.advance(renewMs);
    await answer();
  }
  expect(sentAt()).toEqual([1, 2, 3, 4].map((i) => i * renewMs));
  expect(sent[0]).toMatchObject({ uid: "a", epoch: 7, runningMs: renewMs });
  expect(lease.isLive()).toBe(true);
  expect(2 * renewMs).toBeLessThan(USABLE_MS);
});

test("a renewal counts from its sending, not from its answer", async () => {
  const { clock, hold, answer } = scene();
  const lease = hold();
  clock.advance(renewMs);
  clock.advance(renewMs - 1);
  await answer();
  clock.advance(USABLE_MS - renewMs);
  expect(lease.isLive()).toBe(true);
  clock.advance(1);
  expect(lease.isLive()).toBe(false);
});

test("an answer that is overtaken by that of a later renewal does not shorten the lease", async () => {
  const { clock, hold, sentAt, answer } = scene();
  const lease = hold();
  const first = lease.renew();
  clock.advance(1_000);
  const second = lease.renew();
  expect(sentAt()).toEqual([0, 1_000]);
  await answer();
  await answer();
  await Promise.all([first, second]);
  clock.advance(USABLE_MS - 1);
  expect(lease.isLive()).toBe(true);
  clock.advance(1);
  expect(lease.isLive()).toBe(false);
});

test("the answer of the earlier of two renewals, come last, does not shorten it either", async () => {
  const clock = handClock();
  const resolvers: ((answer: Renewal) => void)[] = [];
  const renew: Renew = () => new Promise((resolve) => resolvers.push(resolve));
  const keeper = new LeaseKeeper({ clock, store: { renew, timing: TIMING } });
  const lease = keeper.hold({
    address: addressOf("a"),
    epoch: 1,
    claimId: "c",
    claimedAtMs: 0,
    earlierMs: 0,
  });
  const first = lease.renew();
  clock.advance(1_000);
  const second = lease.renew();
  resolvers[1]?.({ status: "ok", ...NEWS });
  await second;
  resolvers[0]?.({ status: "ok", ...NEWS });
  await first;
  clock.advance(USABLE_MS - 1);
  expect(lease.isLive()).toBe(true);
});

test("a renewal whose answer never comes, or is lost on the way, ends nothing, and lengthens nothing", async () => {
  const { clock, hold, sentAt, answer } = scene();
  const lease = hold();
  clock.advance(renewMs);
  await answer("lost");
  expect(lease.endReason).toBeUndefined();
  clock.advance(USABLE_MS - renewMs - 1);
  expect(sentAt()).toEqual([renewMs, 2 * renewMs]);
  expect(lease.isLive()).toBe(true);
  clock.advance(1 + TICK_MS);
  expect(lease.endReason).toBe("expired");
});

test("one lost renewal does no harm: the next one keeps the lease", async () => {
  const { clock, hold, answer } = scene();
  const lease = hold();
  clock.advance(renewMs);
  await answer("lost");
  clock.advance(renewMs);
  await answer();
  clock.advance(USABLE_MS - TICK_MS);
  expect(lease.isLive()).toBe(true);
});

test("a renewal that is answered after the lease was over does not bring it back", async () => {
  const { clock, hold, answer } = scene();
  const lease = hold();
  clock.advance(renewMs);
  // Every timer of a process that stands still is late.
  const { workStop } = lease;
  clock.advance(USABLE_MS);
  await answer();
  expect(lease.isLive()).toBe(false);
  expect(lease.endReason).toBe("expired");
  expect(workStop.isStopped).toBe(true);
});

test("a late answer ends a lease that no timer has ended yet", async () => {
  const frozen = { ms: 0 };
  const { timeout, sleep, now } = handClock();
  const clock = { now, timeout, sleep, monotonicMs: () => frozen.ms };
  const heard: HolderStatus[] = [];
  const renew: Renew = async () => {
    frozen.ms += 2 * leaseMs;
    return { status: "ok", ...NEWS };
  };
  const keeper = new LeaseKeeper({ clock, store: { renew, timing: TIMING } });
  const lease = keeper.hold({
    address: addressOf("a"),
    epoch: 1,
    claimId: "c",
    claimedAtMs: 0,
    earlierMs: 0,
  });
  lease.onStatus = (news) => heard.push(news);
  await lease.renew();
  expect(lease.endReason).toBe("expired");
  expect(heard).toEqual([]);
});

test("a lease that another one holds ends at once, as taken, and stays so", async () => {
  const { clock, hold, sent, answer } = scene();
  const lease = hold();
  clock.advance(renewMs);
  await answer("taken");
  expect(lease.isLive()).toBe(false);
  expect(lease.workStop.isStopped).toBe(true);
  lease.end("expired");
  expect(lease.endReason).toBe("taken");
  clock.advance(10 * leaseMs);
  expect(sent).toHaveLength(1);
});

test("a lease that was given up asks Redis nothing, hears nothing more and leaves no timer", async () => {
  const { clock, keeper, hold, sent, answer } = scene();
  const heard: HolderStatus[] = [];
  const lease = hold();
  lease.onStatus = (news) => heard.push(news);
  clock.advance(renewMs);
  keeper.drop(lease);
  await answer({ inbox: 3 });
  void lease.renew();
  expect(lease.endReason).toBe("given_up");
  expect(lease.isLive()).toBe(false);
  expect(lease.workStop.isStopped).toBe(true);
  expect([heard.length, sent.length, clock.pending]).toEqual([0, 1, 0]);
});

test("the answer that another worker has the run says nothing any more of a lease that had ended before", async () => {
  const { clock, keeper, hold, answer } = scene();
  const lease = hold();
  clock.advance(renewMs);
  keeper.drop(lease);
  await answer("taken");
  expect(lease.endReason).toBe("given_up");
});

test("a renewal tells of unread messages, of a finish and of a watcher", async () => {
  const { clock, hold, answer } = scene();
  const heard: HolderStatus[] = [];
  hold().onStatus = (news) => heard.push(news);
  clock.advance(renewMs);
  await answer({ inbox: 2, finish: true, watched: true });
  expect(heard).toMatchObject([{ inbox: 2, finish: true, watched: true }]);
});

test("the time of a run stands still while it rests, goes on afterwards, and holds that of earlier claims", async () => {
  const { clock, hold } = scene();
  const lease = hold({ earlierMs: 500 });
  clock.advance(100);
  expect(lease.runningMs()).toBe(600);
  const rest = lease.rest(1_000);
  clock.advance(400);
  expect(lease.runningMs()).toBe(600);
  clock.advance(600);
  await rest;
  expect(lease.runningMs()).toBe(600);
  clock.advance(50);
  expect(lease.runningMs()).toBe(650);
});

test("a rest ends with the lease", async () => {
  const { clock, keeper, hold } = scene();
  const lease = hold();
  let isOver = false;
  void lease.rest(3_600_000).then(() => {
    isOver = true;
  });
  clock.advance(10);
  keeper.drop(lease);
  await settled();
  expect([isOver, clock.pending]).toEqual([true, 0]);
});

test("one timer renews all leases of a process, and goes with the last of them", async () => {
  const { clock, keeper, hold, sent } = scene();
  const leases = ["a", "b", "c"].map((uid) => hold({ uid }));
  expect(clock.pending).toBe(1);
  clock.advance(renewMs);
  expect(sent.map(({ uid }) => uid)).toEqual(["a", "b", "c"]);
  for (const lease of leases) keeper.drop(lease);
  expect([...keeper.held.keys(), clock.pending]).toEqual([0]);
});

test("a lease that is held beside older ones is renewed by its own time", async () => {
  const { clock, hold, sent } = scene();
  hold({ uid: "a" });
  clock.advance(renewMs / 2);
  hold({ uid: "b" });
  clock.advance(renewMs / 2);
  expect(sent.map(({ uid }) => uid)).toEqual(["a"]);
  clock.advance(renewMs / 2);
  expect(sent.map(({ uid }) => uid)).toEqual(["a", "b"]);
});

test("a hint has Redis asked at once; one that comes during the claim is asked about as soon as the lease is there", () => {
  const { keeper, hold, sent } = scene();
  hold({ uid: "a" });
  keeper.askAbout("a");
  keeper.askAbout("nobody");
  expect(sent.map(({ uid }) => uid)).toEqual(["a"]);
  keeper.beginClaim("b");
  keeper.askAbout("b");
  expect(sent).toHaveLength(1);
  hold({ uid: "b" });
  expect(sent.map(({ uid }) => uid)).toEqual(["a", "b"]);
});

test("a hint for a claim that brought nothing is forgotten", () => {
  const { keeper, hold, sent } = scene();
  keeper.beginClaim("a");
  keeper.askAbout("a");
  keeper.endClaim("a");
  hold({ uid: "a" });
  expect(sent).toEqual([]);
});

test("a second wake of the agent in the process does not make a hint for the first one's claim forgotten", () => {
  const { keeper, hold, sent } = scene();
  keeper.beginClaim("a");
  keeper.askAbout("a");
  keeper.beginClaim("a");
  keeper.endClaim("a");
  hold({ uid: "a" });
  expect(sent.map(({ uid }) => uid)).toEqual(["a"]);
});

test("a hint is forgotten once the last of several claims of the agent is over", () => {
  const { keeper, hold, sent } = scene();
  keeper.beginClaim("a");
  keeper.beginClaim("a");
  keeper.askAbout("a");
  keeper.endClaim("a");
  keeper.endClaim("a");
  hold({ uid: "a" });
  expect(sent).toEqual([]);
});

test("a hint is asked about once: the next hold of the agent begins without it", () => {
  const { keeper, hold, sent } = scene();
  keeper.beginClaim("a");
  keeper.askAbout("a");
  keeper.drop(hold());
  hold();
  expect(sent).toHaveLength(1);
});

test("a process that holds its agent again ends the earlier lease at once, and keeps the later when that one winds down", () => {
  const { keeper, hold } = scene();
  const earlier = hold();
  const later = hold();
  expect(earlier.endReason).toBe("taken");
  keeper.drop(earlier);
  expect(keeper.held.get("a")).toBe(later);
  expect(later.isLive()).toBe(true);
});

test("a process that cannot wait stops what goes on under every lease, and still holds them", () => {
  const { keeper, hold } = scene();
  const leases = ["a", "b"].map((uid) => hold({ uid }));
  keeper.interruptAll();
  expect(leases.map((lease) => [lease.workStop.isStopped, lease.isLive()])).toEqual([
    [true, true],
    [true, true],
  ]);
});

test("a renewal that Redis refused for a while counts from the moment at which it was sent last", async () => {
  const clock = handClock();
  const sentAt: number[] = [];
  const renew: Renew = async () => {
    sentAt.push(clock.monotonicMs());
    return { status: "ok", ...NEWS };
  };
  const again: WriteRetry = async (send) => {
    await send();
    await clock.sleep(1_000);
    return send();
  };
  const keeper = new LeaseKeeper({ clock, store: { renew, timing: TIMING }, retry: again });
  const lease = keeper.hold({
    address: addressOf("a"),
    epoch: 7,
    claimId: "claim",
    claimedAtMs: 0,
    earlierMs: 0,
  });
  void lease.renew();
  await settled();
  clock.advance(1_000);
  await settled();
  expect(sentAt.slice(0, 2)).toEqual([0, 1_000]);
  clock.advance(USABLE_MS - 1);
  expect(lease.isLive()).toBe(true);
});
