/** Guarantee: a change of a schedule that a full Redis refuses leaves the schedule as it was, in the hash and in the queue. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { startPrivateRedis, uniquePrefix } from "../../helpers/redis.ts";

const AT = new Date(Date.now() + 86_400_000).toISOString();

test.each([
  { was: { every_ms: 3_600_000 }, is: { every_ms: 7_200_000 } },
  { was: { cron: "0 6 * * *" }, is: { at: AT } },
  { was: { at: AT }, is: { every_ms: 7_200_000 } },
])("$was that is to become $is on a full Redis stays as it was", async ({ was, is }) => {
  const { url } = await startPrivateRedis();
  const client = testClient({ redisUrl: url, prefix: uniquePrefix() });
  const parent = testParent(client);
  const { redis, keys } = await internalsOf(client).open();
  const queued = async () => (await redis.keys(`${keys.intakeJob("")}*`)).sort();
  const made = await parent.schedule({ schedule_id: "report", prompt: "the old work", ...was });
  const before = await queued();
  await redis.config("SET", "maxmemory", "1");
  await expect(
    parent.schedule({ schedule_id: "report", prompt: "the new work", ...is }),
  ).rejects.toMatchObject(refusal("redis_unavailable", /no memory left .*: nothing was done/));
  await redis.config("SET", "maxmemory", "0");
  expect(await queued()).toEqual(before);
  expect(await parent.schedules()).toEqual([made]);
});
