/** Guarantee: a trouble that only one of two looks shows is not reported, also of an agent that has another one then. */
import { expect, test } from "vitest";
import { examine, openToExamine } from "../../src/cli/doctor/examine.ts";
import { createDisposables } from "../../src/cli/local/disposables.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { deadlineMember } from "../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { openStage } from "../stage/stage.ts";

test("of an agent whose trouble is over at the second look, no new one is reported yet", async () => {
  const { url, redis, keys, prefix, workspaceRoot, ...stage } = await openStage();
  const [mended, lasting] = [await stage.spawn(), await stage.spawn()];
  const { live } = keys.parent(mended);
  const lifeKey = await redis.hget(live, mended.uid);
  await redis.hdel(live, mended.uid, lasting.uid);
  const between = async () => {
    await redis.hset(live, mended.uid, lifeKey ?? "");
    await redis.zrem(keys.deadlines, deadlineMember(mended), deadlineMember(lasting));
  };
  const closing = createDisposables();
  closeAtEnd(() => closing.close());
  const clock = { ...systemClock, sleep: between };
  const logger = createLogger({ level: "silent" });
  const opened = await openToExamine(url, { prefix, workspaceRoot, clock, logger }, closing);
  const { suspects } = await examine(opened, { host: "here", isProduction: false });
  expect(suspects.map(({ snapshot, troubles }) => [snapshot.address.uid, troubles])).toEqual([
    [lasting.uid, ["uncounted"]],
  ]);
});
