/**
 * Guarantee: tenants share the workers alike, and the parents of a tenant. A parent that comes late waits less than twice the
 * time of a run, however many wait before it, also where a tenant spreads over many parents.
 */
import { expect, test } from "vitest";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";
import { verbRig } from "../verbs/rig.ts";

/** A line of wakes without a worker; jobs are named `<tenant>/<parent>#<n>`. */
function line() {
  const { redis, keys } = verbRig();
  const wakes = createWakeQueue(redis, keys);
  closeAtEnd(() => wakes.stop());
  const added = new Map<string, number>();
  const ids = () => redis.zrange(keys.rankedWakes, 0, -1);
  const isRanked = async (id: string) =>
    Number(await redis.hget(keys.wakeJob(id), "priority")) < 2_097_151 ? true : undefined;
  const add = async (tenant: string, parentId: string): Promise<string> => {
    const uid = `${tenant}/${parentId}#${added.size}`;
    added.set(uid, added.size);
    await wakes.add({ tenant, parent_id: parentId, uid, agent_id: "a", wake: 1 });
    await expect.poll(() => isRanked(`${uid}.1`)).toBe(true);
    return uid;
  };
  return {
    add,
    addMany: async (count: number, tenant: string, parentId: string) => {
      for (let i = 0; i < count; i += 1) await add(tenant, parentId);
    },
    /** Whose the next `count` wakes are, in order; taken out of the line. */
    async take(count: number): Promise<string[]> {
      const next = (await ids()).slice(0, count);
      if (next.length > 0) await redis.zrem(keys.rankedWakes, ...next);
      return next.map((id) => id.split("#")[0] ?? "");
    },
  };
}

const countOf = (all: readonly string[], one: string) => all.filter((each) => each === one).length;

test("two parents of one tenant take turns, whatever either has waiting", async () => {
  const { addMany, take } = line();
  await addMany(20, "acme", "many");
  await addMany(4, "acme", "few");
  const next = await take(12);
  expect(countOf(next, "acme/few")).toBeGreaterThanOrEqual(3);
  expect(next.indexOf("acme/few")).toBeLessThan(3);
});

test("a tenant that spreads over many parents gets no more than one that does not", async () => {
  const { add, addMany, take } = line();
  for (let round = 0; round < 3; round += 1)
    for (let i = 0; i < 20; i += 1) await add("sharded", `parent-${i}`);
  await addMany(20, "plain", "only");
  const next = await take(20);
  expect(countOf(next, "plain/only")).toBeGreaterThanOrEqual(8);
  expect(countOf(next, "plain/only")).toBeLessThanOrEqual(12);
});

test("a parent that comes late is next once those before it have had a turn", async () => {
  const { add, addMany, take } = line();
  for (let i = 0; i < 5; i += 1) await addMany(4, "acme", `parent-${i}`);
  expect(new Set(await take(9)).size).toBe(5);
  await add("acme", "late");
  expect((await take(3)).includes("acme/late")).toBe(true);
});

test("what a parent used while nothing waited is not held against it", async () => {
  const { add, addMany, take } = line();
  for (let i = 0; i < 30; i += 1) {
    await add("acme", "busy");
    await take(1);
  }
  await addMany(3, "acme", "other");
  await add("acme", "busy");
  expect((await take(3)).includes("acme/busy")).toBe(true);
});

test("a place in the line costs Redis the same at 100 wakes and at 30,000", async () => {
  const rig = verbRig();
  const wakes = createWakeQueue(rig.redis, rig.keys);
  closeAtEnd(() => wakes.stop());
  const fill = async (fillers: number) => {
    for (let from = 0; from < fillers; from += 1_000) {
      const flat = Array.from({ length: 2_000 }, (_, i) =>
        i % 2 === 0 ? (1_000_000 + from + i) * 4_294_967_296 : `filler.${from + i}`,
      );
      await rig.redis.zadd(rig.keys.rankedWakes, ...flat);
    }
  };
  let added = 0;
  const spentUs = async () => {
    const stats = await rig.redis.info("commandstats");
    return Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(stats)?.[1]);
  };
  /** The least of ten: other processes of the machine count as well. */
  const costUs = async () => {
    const costs: number[] = [];
    for (let round = 0; round < 10; round += 1) {
      const before = await spentUs();
      for (let i = 0; i < 50; i += 1) {
        added += 1;
        await wakes.add({ tenant: "acme", parent_id: "p", uid: `u${added}`, agent_id: "a", wake: 1 });
      }
      await rig.redis.ping();
      costs.push(((await spentUs()) - before) / 50);
    }
    return Math.min(...costs);
  };
  await fill(1_000);
  await costUs();
  const few = await costUs();
  await fill(30_000);
  const many = await costUs();
  process.stdout.write(
    `a wake costs ${few.toFixed(0)} µs in a short line, ${many.toFixed(0)} µs at 30,000\n`,
  );
  expect(many / few, `${few} µs, then ${many} µs a wake`).toBeLessThan(2);
});

test.each([
  ["of another tenant", "late"],
  ["of the same tenant", "default"],
])("behind 40 parents' 400 tasks a task of a parent %s waits less than twice its time", async (_, tenant) => {
  const RUN_MS = 250;
  const PLACES = 20;
  const stage = await openStage({
    latencyMs: RUN_MS,
    scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] },
  });
  const many = await Promise.all(
    Array.from({ length: 40 }, (__, i) => stage.parent(`shard-${i}`)).map(async (parent) => {
      const spawned = await Promise.all(
        Array.from({ length: 10 }, (__, i) => parent.spawn({ name: `a${i}` })),
      );
      return { parent, spawned };
    }),
  );
  for (let i = 0; i < 10; i += 1)
    await Promise.all(many.map(({ parent, spawned }) => parent.send(spawned[i]?.agent_id ?? "", "go")));
  await stage.startWorker({ concurrency: PLACES });
  // All parents have had a turn by then.
  await until(() => stage.offline.ledger.length > 60);
  const startedMs = performance.now();
  const before = stage.offline.ledger.length;
  await stage.parent("latecomer", { tenant }).task("go");
  const waitedMs = performance.now() - startedMs - RUN_MS;
  process.stdout.write(
    `a latecomer waited ${waitedMs.toFixed(0)} ms, ${stage.offline.ledger.length - before} began beside runs of ${RUN_MS} ms\n`,
  );
  // In the time of a run as many begin as there are places: twice as many before its own, and its neighbours.
  expect(stage.offline.ledger.length - before).toBeLessThan(3 * PLACES);
});
