/**
 * Guarantee: a node of a cluster that falls silent rejects nothing and closes nothing; it is given up all the same, and
 * everything goes on by itself. In the long form only (`npm run test:cluster`): silence takes its time.
 */
import { afterEach, beforeAll, expect, test } from "vitest";
import type { RedisCluster } from "../helpers/cluster.ts";
import { type Installation, openInstallation, SHORT_TIMING } from "../helpers/installation.ts";
import { started, testClient, testParent } from "../helpers/parents.ts";
import { startPrivateCluster } from "../helpers/redis.ts";
import { until } from "../helpers/until.ts";

const RESUMES_WITHIN_MS = 30_000;
const list = (pattern: string) => ({
  content: [{ type: "tool_use" as const, name: "glob", input: { pattern } }],
});
const scenario = { turns: [list("a"), list("b"), { content: [{ type: "text" as const, text: "done" }] }] };
let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startPrivateCluster();
});
afterEach(() => cluster.repair());

const onCluster = () => ({ redisUrl: cluster.url, scenario, timing: SHORT_TIMING });
const clientOf = ({ prefix }: Installation) =>
  started(testClient({ redisUrl: cluster.url, prefix, timing: SHORT_TIMING }));
const elapsed = (sinceMs: number) => Math.round(performance.now() - sinceMs);

test("a cluster that was silent as a whole finds its worker ready again, and working", {
  timeout: 90_000,
}, async () => {
  const installation = await openInstallation({ ...onCluster(), latencyMs: 100 });
  const worker = await installation.startWorker();
  const parent = testParent(await clientOf(installation));
  await until(async () => (await worker.readiness()).ready);
  for (const server of cluster.servers) server.freeze();
  await until(async () => !(await worker.readiness()).ready, { what: "a worker that notices" });
  // Long enough for its sockets to be given up, and for attempts to find the cluster anew.
  const silentMs = performance.now();
  await until(() => elapsed(silentMs) > 15_000, { timeoutMs: 20_000, everyMs: 100 });
  await expect(parent.spawn({ name: "late" })).rejects.toMatchObject({ retryable: true });
  await cluster.repair();
  const soundMs = performance.now();
  const ready = async () => (await worker.readiness()).ready;
  await until(ready, { timeoutMs: RESUMES_WITHIN_MS, what: "a worker that is ready again" });
  await until(() => parent.task({ prompt: "after" }), { timeoutMs: RESUMES_WITHIN_MS });
  process.stdout.write(`whole cluster silent: work done ${elapsed(soundMs)} ms after it was sound again\n`);
});

test.for(["the parents", "what all workers share"])(
  "the master of %s falls silent: its successor gets the work without anybody's help",
  { timeout: 90_000 },
  async (victim) => {
    const installation = await openInstallation({ ...onCluster(), latencyMs: 300 });
    const worker = await installation.startWorker();
    const client = await clientOf(installation);
    const parent = testParent(client);
    const address = { tenant: parent.tenant, parentId: parent.parentId };
    const key =
      victim === "the parents" ? installation.keys.parent(address).live : installation.keys.deadlines;
    const { master } = await cluster.holderOf(key);
    const first = parent.task({ prompt: "first" });
    await until(() => worker.active().length === 1);
    master.freeze();
    const silentMs = performance.now();
    await cluster.takenOver(key, master);
    const promotedMs = performance.now();
    expect(await first).toMatchObject({ status: "succeeded", turns: 3 });
    await until(() => parent.task({ prompt: "second" }), { timeoutMs: 40_000, everyMs: 100 });
    const doneMs = elapsed(promotedMs);
    process.stdout.write(
      `silent master of ${victim}: promoted after ${Math.round(promotedMs - silentMs)} ms, two runs done ${doneMs} ms later\n`,
    );
    expect(doneMs).toBeLessThan(RESUMES_WITHIN_MS);
    await cluster.repair();
    expect(await parent.task({ prompt: "third" })).toMatchObject({ status: "succeeded" });
  },
);
