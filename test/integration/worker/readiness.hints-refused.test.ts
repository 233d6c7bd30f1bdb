/** Guarantee: a worker whose subscription Redis refuses says so: Redis answers, and its operator has to give a right back. */
import { expect, test } from "vitest";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a worker that may no longer subscribe names the channel, until it may again", async () => {
  const stage = await openStage({ redis: "own" });
  const worker = await stage.startWorker();
  await until(async () => (await worker.readiness()).ready);
  await stage.redis.call("ACL", "SETUSER", "default", "resetchannels");
  const reasons = async () => (await worker.readiness()).reasons.join(" ");
  await until(async () => (await reasons()).includes("NOPERM"));
  expect(await reasons()).toContain("refuses this worker's user the channel");
  await stage.redis.call("ACL", "SETUSER", "default", "allchannels");
  await until(async () => (await worker.readiness()).ready);
});
