/** Guarantee: a worker that is started while it stops works afterwards, and the last call decides. */
import { expect, test } from "vitest";
import { refusal } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a worker that is started during its stop takes work again; stopped once more, it does not start", async () => {
  const stage = await openStage();
  const worker = await stage.startWorker();
  const stopped = worker.stop();
  await worker.start();
  await stopped;
  await until(async () => (await worker.readiness()).ready);
  expect(await stage.reply(await stage.task("say hello"))).toMatchObject({ status: "succeeded" });

  void worker.stop();
  const restarted = expect(worker.start()).rejects.toMatchObject(refusal("closed"));
  await worker.stop();
  await restarted;
  expect(await worker.readiness()).toMatchObject({ reasons: ["the worker is not started"] });
});
