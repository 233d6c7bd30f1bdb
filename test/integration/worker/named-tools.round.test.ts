/** Guarantee: a wake that no worker can run visits each of them without a rest, and rests after its round. */
import { expect, test } from "vitest";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const AGENTS = 40;
const WORKERS = 2;
/** Returns how often the job of each resting wake has been taken, all at one moment. */
const TAKEN = `
local taken = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do taken[#taken + 1] = redis.call('HGET', ARGV[1] .. id, 'ats') end
return taken`;

test("a wake rests after it has been taken as often as there are workers, and not before", async () => {
  const { keys, redis, ...stage } = await openStage({ timing: LONG_TIMING });
  for (let n = 0; n < WORKERS; n += 1) await stage.startWorker();
  await until(async () => (await createWorkerDirectory(redis, keys).list()).length === WORKERS);
  for (let n = 0; n < AGENTS; n += 1) await stage.task("look it up", { tools: ["look_up"] });
  const jobs = `${keys.bullPrefix}:${keys.wakeQueue}:`;
  const resting = await until(async () => {
    const taken = (await redis.eval(TAKEN, 1, keys.delayedWakes, jobs)) as string[];
    return taken.length >= AGENTS / 2 && taken.map(Number);
  });
  expect(resting.filter((taken) => taken % WORKERS !== 0)).toEqual([]);
});
