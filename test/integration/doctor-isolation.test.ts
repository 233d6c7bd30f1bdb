/** Guarantee: the slots of a worker that isolates a run, and claims no other meanwhile, count as taken. */
import { expect, test } from "vitest";
import { createWorkerDirectory } from "../../src/shared/redis/workers.ts";
import { doctorFor } from "../helpers/doctor.ts";
import { openStage } from "../stage/stage.ts";

test.for([
  [2, undefined],
  [1, "error"],
] as const)(
  "a wake that waits beside a worker whose run has crashed %i times is reported as %s",
  async ([crashes, severity]) => {
    const stage = await openStage();
    const { redis, keys } = stage;
    const worker = { id: "w-1", host: "a", version: "0.1.0", tools: [], concurrency: 10, now: Date.now() };
    await createWorkerDirectory(redis, keys).announce(worker);
    const [running] = [await stage.spawn(), await stage.task("waits")];
    const lease_until = Date.now() + 3_600_000;
    await redis.hset(keys.agent(running).record, {
      ...{ status: "running", run: 1, epoch: 1, worker: worker.id, lease_until, deadline: lease_until },
      crashes_without_progress: crashes,
    });
    await redis.persist(keys.agent(running).life);
    const { wakes_not_taken } = await (await doctorFor(stage)).findings();
    expect(wakes_not_taken?.severity).toBe(severity);
  },
);
