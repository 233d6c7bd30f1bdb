/** Guarantee: a log of any length is read in pages, as it stood at one moment, whatever is written to it or becomes of it meanwhile. */
import { expect, test } from "vitest";
import { createAgentStore } from "../../../src/shared/redis/agent-store.ts";
import type { RedisClient } from "../../../src/shared/redis/connection/connection.ts";
import { DESTROY, type Rig, verbRig } from "./rig.ts";

const ENTRIES = 250;
const entriesOf = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`1/t${n}/result`, `r${n}`]));

/** A running agent with a log of {@link ENTRIES} entries. */
async function withLongLog(rig: Rig) {
  const { agent, epoch } = await rig.running();
  await rig.redis.hset(rig.keys.agent(agent).log, entriesOf(ENTRIES));
  return { agent, epoch };
}

/** The rig's store, where something happens before a page is read, the first being 1. Counts the entries of each page. */
function interrupted(rig: Rig, before: (page: number) => unknown) {
  const pages: number[] = [];
  const redis = new Proxy<RedisClient>(rig.redis, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name);
      if (typeof found !== "function") return found;
      if (name !== "hmget") return found.bind(target);
      return async (key: string, ...names: string[]) => {
        await before(pages.push(names.length));
        return await target.hmget(key, ...names);
      };
    },
  });
  return { store: createAgentStore(redis, rig.keys), pages };
}

test("a log is read in pages of a hundred entries, and has none that was written since the first", async () => {
  const rig = verbRig();
  const { agent, epoch } = await withLongLog(rig);
  const append = (page: number) =>
    rig.store.append(agent, { epoch, known: 0, running_ms: 1, entries: [[`2/late_${page}`, "late"]] });
  const { store, pages } = interrupted(rig, append);
  expect(Object.fromEntries(await store.conversation(agent))).toEqual(entriesOf(ENTRIES));
  expect(pages).toEqual([100, 100, 50]);
  expect((await store.conversation(agent)).size).toBe(ENTRIES + 3);
  expect((await store.load(agent))?.log.size).toBe(ENTRIES + 6);
});

test("a log whose agent ends meanwhile is read as its transcript", async () => {
  const rig = verbRig();
  const { agent } = await withLongLog(rig);
  const { store } = interrupted(rig, (page) => (page === 2 ? rig.store.settle(agent, DESTROY) : undefined));
  const read = await store.conversation(agent);
  expect((await rig.store.record(agent))?.status).toBe("ended");
  expect(Object.fromEntries(read)).toEqual(entriesOf(ENTRIES));
});

test("a part of a log whose agent ends meanwhile is read from its transcript, and is none if that is deleted as well", async () => {
  const rig = verbRig();
  const { agent } = await withLongLog(rig);
  const { log, transcript } = rig.keys.agent(agent);
  const names = ["1/t0/result", "1/t7/result"];
  const partOf = ({ store }: ReturnType<typeof interrupted>) =>
    store.conversationPart(
      agent,
      () => names,
      (keys) => keys,
    );
  const ends = interrupted(rig, (page) => (page === 1 ? rig.store.settle(agent, DESTROY) : undefined));
  expect([...((await partOf(ends)) ?? [])]).toEqual([
    ["1/t0/result", "r0"],
    ["1/t7/result", "r7"],
  ]);
  expect((await rig.store.record(agent))?.status).toBe("ended");
  expect(await partOf(interrupted(rig, () => rig.redis.del(log, transcript)))).toBeUndefined();
});

test("a log that is deleted meanwhile, transcript included, is none", async () => {
  const rig = verbRig();
  const { agent } = await withLongLog(rig);
  const { log } = rig.keys.agent(agent);
  const { store } = interrupted(rig, (page) => (page === 2 ? rig.redis.del(log) : undefined));
  expect((await store.conversation(agent)).size).toBe(0);
  await rig.redis.hset(log, entriesOf(ENTRIES));
  const { store: again } = interrupted(rig, (page) => (page === 2 ? rig.redis.del(log) : undefined));
  expect((await again.load(agent))?.log.size).toBe(0);
});
