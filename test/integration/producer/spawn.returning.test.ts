/** Guarantee: while workers come back after Redis took no announcements, no tool is taken for one that no worker has. */
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { WORKER_TTL_MS } from "../../../src/shared/protocol/worker.ts";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { createAnnouncer } from "../../../src/worker/health/announcer.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { refusal } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const EVERY_MS = WORKER_TTL_MS / 10;
const tools = ["crm_lookup"];

test("a spawn is not refused for a tool of a worker that is about to come back, and its run waits for it", async () => {
  const stage = await openStage();
  const directory = createWorkerDirectory(stage.redis, stage.keys);
  const clock = handClock();
  const about = { host: "h", version: "0.1.0", concurrency: 50 };
  const logger = createLogger({ level: "silent" });
  const announcer = createAnnouncer(directory, { id: "w1", tools: ["look_up"], ...about }, { clock, logger });
  closeAtEnd(() => announcer.stop());
  const announcedAfter = async (ms: number) => {
    const key = stage.keys.worker("w1");
    await stage.redis.pexpire(key, 3_600_000);
    clock.advance(ms);
    await until(async () => (await stage.redis.pttl(key)) <= WORKER_TTL_MS);
  };
  // A client of its own each time: none remembers what it has read.
  const spawn = (name: string) =>
    stage.parent("planner-7", { client: stage.client() }).spawn({ name, tools });
  await announcer.start();
  await expect(spawn("begun")).rejects.toMatchObject(refusal("invalid_input", /no worker has/));
  // As after a time without writes: the announcements of all workers have expired.
  await stage.redis.del(stage.keys.worker("w1"), stage.keys.workers);
  clock.advance(EVERY_MS);
  await until(async () => (await directory.list()).length === 1);
  expect(await spawn("returning")).toMatchObject({ agent_id: "returning", unknown_tools: tools });
  const uid = await stage.store.uidOf({ tenant: "default", parentId: "planner-7" }, "returning");
  const { record } = stage.keys.agent({ tenant: "default", parentId: "planner-7", uid: uid ?? "" });
  expect(await stage.redis.hget(record, "needs_tools")).toContain("crm_lookup");
  await announcedAfter(EVERY_MS);
  await expect(spawn("returned")).rejects.toMatchObject(refusal("invalid_input", /no worker has/));
});
