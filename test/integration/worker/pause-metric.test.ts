/** A pause is a figure of every worker, for an alert: paused workers look like idle ones otherwise. */
import { expect, test } from "vitest";
import { createPause } from "../../../src/shared/redis/pause.ts";
import { openStage } from "../../stage/stage.ts";

test("subagent_paused is 1 from the pause to the resume", async () => {
  const stage = await openStage();
  const pause = createPause(stage.redis, stage.keys);
  const paused = async () => {
    // A worker asks Redis at most every five seconds.
    const worker = await stage.startWorker({ metrics: true });
    const { text = "" } = (await worker.metrics()) ?? {};
    await worker.stop();
    return /^subagent_paused (\d)$/m.exec(text)?.[1];
  };
  expect(await paused()).toBe("0");
  await pause.pause("too dear");
  expect(await paused()).toBe("1");
  await pause.resume();
  expect(await paused()).toBe("0");
});
