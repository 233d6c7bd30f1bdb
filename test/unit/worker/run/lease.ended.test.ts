import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { type HolderStatus, LeaseKeeper } from "../../../../src/worker/run/lease.ts";
import { createWriteRetry } from "../../../../src/worker/run/write-retry.ts";
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

test("a renewal that Redis refuses is not sent again once its lease has ended", async () => {
  const clock = handClock();
  let sent = 0;
  const renew = async () => {
    sent += 1;
    throw new Error("NOREPLICAS Not enough good replicas to write.");
  };
  const logger = createLogger({ level: "silent" });
  const retry = createWriteRetry({ clock, logger, abandoned: new AbortController().signal });
  const keeper = new LeaseKeeper({ clock, store: { renew, timing: TIMING }, retry });
  const address = { tenant: "t", parentId: "p", uid: "a" };
  const lease = keeper.hold({ address, epoch: 7, claimId: "claim", claimedAtMs: 0, earlierMs: 0 });
  const renewal = lease.renew();
  const pass = async (ms: number) => {
    clock.advance(ms);
    await new Promise(setImmediate);
  };
  await pass(0);
  await pass(100);
  expect(sent).toBe(2);
  keeper.drop(lease);
  await pass(100);
  await renewal;
  expect(sent).toBe(2);
});
