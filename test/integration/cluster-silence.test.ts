/**
 * Guarantee: a node of a cluster that falls silent rejects nothing and closes nothing; it is given up all the same, and
 * everything goes on by itself. In the long form only (`npm run test:cluster`): silence takes its time.
 */
import { expect, test } from "vitest";
import { elapsed, RESUMES_WITHIN_MS, useCluster } from "../helpers/cluster-scene.ts";
import { reportTime } from "../helpers/figures.ts";
import { testParent } from "../helpers/parents.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

const scene = useCluster();
const { onCluster, clientOf } = scene;

test("a cluster that was silent as a whole finds its worker ready again, and working", async () => {
  const installation = await openStage({ ...onCluster(), latencyMs: 100 });
  const worker = await installation.startWorker();
  const parent = testParent(await clientOf(installation));
  await until(async () => (await worker.readiness()).ready);
  for (const server of scene.cluster.servers) server.freeze();
  await until(async () => !(await worker.readiness()).ready, { what: "a worker that notices" });
  // Long enough for its sockets to be given up, and for attempts to find the cluster anew.
  const silentMs = performance.now();
  await until(() => elapsed(silentMs) > 15_000, { timeoutMs: 20_000, everyMs: 100 });
  await expect(parent.spawn({ name: "late" })).rejects.toMatchObject({ retryable: true });
  await scene.cluster.repair();
  const soundMs = performance.now();
  const ready = async () => (await worker.readiness()).ready;
  await until(ready, { timeoutMs: RESUMES_WITHIN_MS, what: "a worker that is ready again" });
  await until(() => parent.task({ prompt: "after" }), { timeoutMs: RESUMES_WITHIN_MS });
  process.stdout.write(`whole cluster silent: work done ${elapsed(soundMs)} ms after it was sound again\n`);
});

test.for(["the parents", "what all workers share"])(
  "the master of %s falls silent: its successor gets the work without anybody's help",
  async (victim) => {
    const installation = await openStage({ ...onCluster(), latencyMs: 300 });
    await installation.startWorker();
    const client = await clientOf(installation);
    const parent = testParent(client);
    const address = { tenant: parent.tenant, parentId: parent.parentId };
    const key =
      victim === "the parents" ? installation.keys.parent(address).live : installation.keys.deadlines;
    const { master } = await scene.cluster.holderOf(key);
    const first = parent.task({ prompt: "first" });
    await until(() => installation.offline.ledger.length >= 1);
    master.freeze();
    const silentMs = performance.now();
    await scene.cluster.takenOver(key, master);
    const promotedMs = performance.now();
    expect(await first).toMatchObject({ status: "succeeded", turns: 3 });
    await until(() => parent.task({ prompt: "second" }), { timeoutMs: 40_000, everyMs: 100 });
    const doneMs = elapsed(promotedMs);
    process.stdout.write(
      `silent master of ${victim}: promoted after ${Math.round(promotedMs - silentMs)} ms, two runs done ${doneMs} ms later\n`,
    );
    reportTime("two runs after the promotion", doneMs, RESUMES_WITHIN_MS);
    await scene.cluster.repair();
    expect(await parent.task({ prompt: "third" })).toMatchObject({ status: "succeeded" });
  },
);
