import { expect, test } from "vitest";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { type HolderStatus, LeaseKeeper } from "../../../../src/worker/run/lease.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

test("a lease that ended refers to its run no more: what still knows the lease keeps no conversation", () => {
  const renew = async () => ({ status: "ok", inbox: 0, finish: false, watched: false }) as const;
  const keeper = new LeaseKeeper({ clock: handClock(), store: { renew, timing: TIMING } });
  const address = { tenant: "t", parentId: "p", uid: "a" };
  const lease = keeper.hold({ address, epoch: 7, claimId: "claim", claimedAtMs: 0, earlierMs: 0 });
  const ofTheRun = (_news: HolderStatus) => {};
  lease.onStatus = ofTheRun;
  expect(lease.onStatus).toBe(ofTheRun);
  keeper.drop(lease);
  expect(lease.onStatus).not.toBe(ofTheRun);
});
