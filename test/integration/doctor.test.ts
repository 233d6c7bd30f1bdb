/** Guarantee: the doctor names every sickness that was really brought about, cures the safe ones. */
import { mkdir, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { newUid } from "../../src/shared/protocol/ids.ts";
import { type AgentAddress, deadlineMember, keysUnder } from "../../src/shared/protocol/keys.ts";
import { createAgentStore } from "../../src/shared/redis/agent-store.ts";
import { budgetsOf, createBudgetBook } from "../../src/shared/redis/budget.ts";
import { createKeyTypes } from "../../src/shared/redis/key-types.ts";
import { createPause } from "../../src/shared/redis/pause.ts";
import { createProviderLimiter } from "../../src/shared/redis/provider-limiter.ts";
import { readWorkers } from "../../src/shared/redis/survey.ts";
import { createWorkerDirectory } from "../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { doctorFor } from "../helpers/doctor.ts";
import { keyMembers } from "../helpers/key-names.ts";
import { until } from "../helpers/until.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage } from "../stage/stage.ts";

const DAY_MS = 86_400_000;

function queueOf({ redis, keys }: Stage): Queue {
  const queue = new Queue(keys.wakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  return queue;
}

const nameOf = ({ parentId, agentId }: Agent) => `${parentId}/${agentId}`;
const words = { turns: [{ content: [{ type: "text" as const, text: "done" }] }], repeat: true };

test("a queued agent whose wake was lost is named, woken by --fix, and runs", async () => {
  const installation = await openStage({ timing: SHORT_TIMING, scenario: words });
  const doctor = await doctorFor(installation);
  const agent = await installation.task("work");
  await queueOf(installation).obliterate({ force: true });
  const { stale_queued } = await until(async () => {
    const found = await doctor.findings();
    return found.stale_queued && found;
  });
  expect(stale_queued).toMatchObject({ severity: "error", count: 1, names: [nameOf(agent)], fixable: true });

  await doctor.fix();
  expect(await doctor.findings()).toEqual({});
  await installation.startWorker();
  expect((await installation.reply(agent)).status).toBe("succeeded");
});

test("a budget of a live agent that is nearly used is named with its share, others are not", async () => {
  const installation = await openStage({ timing: SHORT_TIMING });
  const doctor = await doctorFor(installation);
  const budgets = { agent: { max_total_tokens: 1_000 }, parent: { max_total_tokens: 1_000_000 } };
  const agent = await installation.spawn({ budgets });
  const { redis, keys } = installation;
  const book = createBudgetBook(redis, keys, SHORT_TIMING);
  await book.reserve(budgetsOf(agent, budgets), "p1", { tokens: 850, costUsd: 0 }, false);
  const { budgets: found } = await doctor.findings();
  expect(found).toMatchObject({ severity: "warn", count: 1, names: [`agent ${nameOf(agent)} (85 %)`] });
});

test("an intake entry that came to nothing is named until the operator has deleted the list", async () => {
  const { redis, keys, ...installation } = await openStage({ timing: SHORT_TIMING });
  const doctor = await doctorFor({ redis, keys, ...installation });
  await redis.xadd(keys.intakeRefused, "*", "entry", "1767000000000-0", "reason", "parent_id: is missing");
  const { refused_entries } = await doctor.findings();
  expect(refused_entries).toMatchObject({ severity: "warn", count: 1, names: ["1767000000000-0"] });
  await redis.del(keys.intakeRefused);
  expect(await doctor.findings()).toEqual({});
});

test("a run whose worker was killed, with nobody left to notice, is named and woken for another worker", async () => {
  const installation = await openStage({
    timing: SHORT_TIMING,
    scenario: [{ match: { user: "stall" }, turns: [{ latencyMs: 600_000 }] }],
  });
  const doctor = await doctorFor(installation);
  const worker = await installation.spawnWorker();
  const agent = await installation.task("stall");
  await installation.recordWhere(agent, ({ status }) => status === "running");
  expect(await doctor.findings()).toEqual({});
  await worker.kill();
  const { stale_running } = await until(async () => {
    const found = await doctor.findings();
    return found.stale_running && found;
  });
  expect(stale_running).toMatchObject({ severity: "error", names: [nameOf(agent)] });

  await doctor.fix();
  // The dead worker is announced for a while longer.
  const { wakes_not_taken, ...others } = await doctor.findings();
  expect(others).toEqual({});
  expect(wakes_not_taken).toBeDefined();
  installation.offline.setScenario(words);
  await installation.startWorker();
  expect((await installation.reply(agent)).status).toBe("succeeded");
});

test("an agent whose idle time is over, and one whose message is too old, are named and ended", async () => {
  const installation = await openStage({ timing: { ...SHORT_TIMING, maxAgeMs: 300 } });
  const doctor = await doctorFor(installation);
  const idle = await installation.spawn({ idle_ms: 100 });
  const unanswered = await installation.task("nobody answers");
  const found = await until(async () => {
    const now = await doctor.findings();
    return now.overdue_idle && now.overdue_age && now;
  });
  expect(found.overdue_idle).toMatchObject({ severity: "warn", names: [nameOf(idle)] });
  expect(found.overdue_age).toMatchObject({ severity: "error", names: [nameOf(unanswered)] });

  await doctor.fix();
  expect((await installation.entries(idle)).map((entry) => entry.stop_reason)).toEqual(["idle"]);
  expect((await installation.entries(unanswered)).map((entry) => entry.stop_reason)).toEqual(["max_age"]);
  expect(await doctor.findings()).toEqual({});
});

test("agents that the deadline set has lost, or has far too late, are named and put back", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const [lost, late, kept] = [
    await installation.spawn(),
    await installation.spawn(),
    await installation.spawn(),
  ];
  await redis.zrem(keys.deadlines, deadlineMember(lost));
  await redis.zadd(keys.deadlines, Date.now() + DAY_MS, deadlineMember(late));
  const { deadline_missing, ...others } = await doctor.findings();
  expect(deadline_missing).toMatchObject({ severity: "error", count: 2 });
  expect([...(deadline_missing?.names ?? [])].sort()).toEqual([nameOf(lost), nameOf(late)].sort());
  expect(others).toEqual({});

  await doctor.fix();
  expect(await doctor.findings()).toEqual({});
  for (const agent of [lost, late, kept]) {
    expect(Number(await redis.zscore(keys.deadlines, deadlineMember(agent)))).toBeLessThan(
      Date.now() + 700_000,
    );
    expect((await installation.record(agent)).status).toBe("idle");
  }
});

test("a transcript that a resume copies is not left behind by an agent that is gone", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const old = await installation.spawn();
  const next = { ...old, uid: newUid() };
  await redis.hset(keys.agent(old).transcript, "0", "{}");
  const store = createAgentStore(redis, keys);
  const page = await store["resume-page"](next, { resumes: old.uid, entries: [["0"]] });
  expect(page).toEqual({ status: "copied", count: 1 });
  expect(await doctor.findings()).toEqual({});
  await redis.persist(keys.agent(next).log);
  expect(Object.keys(await doctor.findings())).toEqual(["orphaned_keys"]);
});

test("places and keys left behind by agents that ended or are gone are named and taken away, members too", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const [gone, ended] = [await installation.task("x"), await installation.spawn()];
  await redis.del(keys.agent(gone).record);
  await installation.destroy(ended);
  await redis.hset(keys.agent(ended).log, "0", "{}");
  await redis.zadd(keys.deadlines, 1, deadlineMember(gone), 1, "a member that names nobody");
  const found = await doctor.findings();
  expect(Object.keys(found).sort()).toEqual(["leaked_slots", "orphaned_keys", "stray_members"]);
  const goneName = `${gone.parentId}/${gone.uid}`;
  expect(found.leaked_slots).toMatchObject({ severity: "error", names: [goneName] });
  expect([...(found.orphaned_keys?.names ?? [])].sort()).toEqual([goneName, nameOf(ended)].sort());
  expect(found.stray_members?.names).toEqual([goneName, "a member that names nobody"]);

  await doctor.fix();
  expect(await doctor.findings()).toEqual({});
  expect(await redis.hlen(keys.parent(gone).live)).toBe(0);
  const { log, inbox, life } = keys.agent(gone);
  expect(await redis.exists(log, inbox, life, keys.agent(ended).log)).toBe(0);
  expect(await redis.zscore(keys.deadlines, "a member that names nobody")).toBeNull();
});

test("a live agent that its parent does not count or name is named and brought back", async () => {
  const installation = await openStage();
  const { redis, keys, store } = installation;
  const doctor = await doctorFor(installation);
  const agent = await installation.spawn();
  await redis.hdel(keys.parent(agent).live, agent.uid);
  await redis.hdel(keys.parent(agent).registry, agent.agentId);
  const found = await doctor.findings();
  expect(Object.keys(found).sort()).toEqual(["uncounted", "unnamed"]);

  await doctor.fix();
  expect(await doctor.findings()).toEqual({});
  expect(await store.liveUids(agent)).toEqual([agent.uid]);
  expect(await store.uidOf(agent, agent.agentId)).toBe(agent.uid);
});

test("records of a newer version and a status that is none are left alone and named", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const newer = await installation.spawn();
  await redis.hset(keys.agent(newer).record, "v", 99, "deadline", 1);
  await redis.del(keys.agent(newer).life);
  const strange = { tenant: "default", parentId: "planner", uid: newUid() };
  await redis.set(keys.agent(strange).record, "not a hash");
  const spoilt = await installation.spawn();
  await redis.hset(keys.agent(spoilt).record, "status", "zombie");
  const found = await doctor.findings();
  expect(found.newer_records?.names).toEqual([nameOf(newer)]);
  const unreadable = [`planner/${strange.uid}`, `${spoilt.parentId}/${spoilt.uid}`];
  expect([...(found.unreadable?.names ?? [])].sort()).toEqual(unreadable.sort());
  await doctor.fix();
  expect((await installation.record(newer)).status).toBe("idle");
  expect((await redis.hgetall(keys.agent(spoilt).record)).status).toBe("zombie");
});

/** Every key of a parent and of an agent that the code can spell, by its part. */
function partsOf({ keys }: Pick<Stage, "keys">, agent: AgentAddress): Map<string, string> {
  const owned = { parent: keys.parent(agent), agent: keys.agent(agent) };
  const parts = Object.entries(owned).flatMap(([owner, spelled]) =>
    Object.entries(keyMembers(spelled)).map(
      ([part, key]) => [`${owner}.${part}`, typeof key === "string" ? key : key("one")] as const,
    ),
  );
  return new Map(parts.filter(([part]) => part !== "parent.doorbell" && part !== "parent.events"));
}

const PARTS = [...partsOf({ keys: keysUnder() }, { tenant: "t", parentId: "p", uid: newUid() }).keys()];

test.each(PARTS)(
  "a key %s of another type is named with its key, moved aside by --fix, and stops nothing else",
  async (part) => {
    const installation = await openStage();
    const { redis, keys, prefix } = installation;
    const doctor = await doctorFor(installation);
    const [victim, other] = [await installation.spawn(), await installation.spawn()];
    const lost = { ...other, parentId: "elsewhere", uid: newUid() };
    await redis.hset(keys.agent(lost).log, "0", "{}");
    const key = partsOf(installation, victim).get(part) ?? "";
    await redis.del(key);
    await redis.sadd(key, "not ours");
    const found = await doctor.findings();
    expect(found.wrong_types).toMatchObject({ severity: "error", count: 1, fixable: true });
    expect(found.wrong_types?.names).toEqual([`${key} (set, must be ${createKeyTypes(prefix, keys)(key)})`]);
    expect(found.orphaned_keys?.names).toContain(`elsewhere/${lost.uid}`);

    await doctor.fix();
    expect(await doctor.findings()).toEqual({});
    expect(await redis.type(key)).not.toBe("set");
    const [aside = ""] = await redis.keys(`${key.replace("}:", "}:aside:")}:*`);
    expect(await redis.smembers(aside)).toEqual(["not ours"]);
  },
);

test("replies that nobody acks are named a parent, with their age; --fix acks none", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const agents = [await installation.spawn(), await installation.spawn()];
  for (const agent of agents) await installation.destroy(agent);
  expect(await doctor.findings()).toEqual({});
  const add = (parentId: string, ageMs: number) =>
    redis.xadd(
      keys.parent({ tenant: "default", parentId }).replies,
      `${Date.now() - ageMs}-0`,
      "kind",
      "reply",
      "body",
      "SECRET",
    );
  await add("old", 3 * DAY_MS);
  await add("older", 6.5 * DAY_MS);
  const found = await doctor.findings();
  expect(found.unacked_replies).toMatchObject({ severity: "warn", names: ["old (1, oldest 3 d)"] });
  expect(found.expiring_replies).toMatchObject({ severity: "error", names: ["older (1, oldest 6 d)"] });
  expect(JSON.stringify(found)).not.toContain("SECRET");
  await doctor.fix();
  expect(Object.keys(await doctor.findings())).toHaveLength(2);
});

test("workers of several versions, tools and clocks are named", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const directory = createWorkerDirectory(redis, keys);
  const about = {
    version: "0.1.0",
    tools: ["grep"],
    concurrency: 1,
  };
  await directory.announce({ id: "a-1", host: "a", ...about, now: Date.now() });
  expect(await doctor.findings()).toEqual({});
  await directory.announce({
    id: "b-1",
    host: "b",
    ...about,
    version: "0.2.0",
    tools: ["grep", "look_up"],
    now: Date.now() - 90_000,
  });
  const found = await doctor.findings();
  expect(Object.keys(found).sort()).toEqual(["clock_skew", "differing_tools", "mixed_versions"]);
  expect(found.mixed_versions?.names).toEqual(["0.1.0", "0.2.0"]);
  expect(found.differing_tools?.names).toEqual(["look_up"]);
  expect(found.clock_skew?.names).toEqual([expect.stringMatching(/^b (89|90|1) (s|min) behind$/)]);
});

test("wakes that wait while a live worker has free slots are named", async () => {
  const installation = await openStage({ timing: SHORT_TIMING });
  const doctor = await doctorFor(installation);
  const worker = await installation.spawnWorker();
  // It is ready a moment before it has announced itself.
  await until(async () => (await readWorkers(installation.redis, installation.keys)).length === 1);
  worker.freeze();
  await installation.task("x");
  const { wakes_not_taken } = await until(async () => {
    const found = await doctor.findings();
    return found.wakes_not_taken && found;
  });
  expect(wakes_not_taken).toMatchObject({ severity: "error", count: 1, fixable: false });
  worker.thaw();
  await until(async () => Object.keys(await doctor.findings()).length === 0);
});

test("a pause, a queue that somebody paused, and a limiter that refuses are named", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const pause = createPause(redis, keys);
  await pause.pause("too dear");
  const agent = await installation.task("x");
  expect(Object.keys(await doctor.findings())).toEqual(["paused"]);
  await pause.resume();
  await queueOf(installation).pause();
  expect(Object.keys(await doctor.findings())).toEqual(["queue_paused"]);
  await queueOf(installation).resume();

  const limiter = createProviderLimiter(redis, keys);
  const admission = await limiter.acquire("anthropic/m", agent.uid);
  if (admission.status !== "open") throw new Error("the limiter is closed");
  await limiter.release("anthropic/m", agent.uid, admission, { outcome: "denied", reason: "billing" });
  const found = await doctor.findings();
  expect(Object.keys(found)).toEqual(["provider_denied"]);
  expect(found.provider_denied?.names).toEqual([expect.stringMatching(/^anthropic\/m denied \(billing\)/)]);
  expect(found.provider_denied).toMatchObject({
    what: expect.stringMatching(/refuses the API key or its account$/),
    todo: expect.stringMatching(/^for billing fill up the account, else /),
  });
});

test("workspaces: missing, orphaned and old ones are named; --fix deletes only what is old and over", async () => {
  const note = {
    type: "tool_use" as const,
    name: "write_file",
    input: { file_path: "note.txt", content: "x" },
  };
  const scenario = { turns: [{ content: [note] }, ...words.turns] };
  const installation = await openStage({ scenario });
  const { workspaceRoot } = installation;
  const doctor = await doctorFor(installation);
  await installation.startWorker();
  const lives = await installation.task("x", { keep_alive: true });
  const [young, old] = [await installation.task("x"), await installation.task("x")];
  for (const agent of [lives, young, old]) await installation.reply(agent);
  const placeOf = (agent: Pick<Agent, "tenant" | "parentId" | "agentId">) =>
    join(workspaceRoot, agent.tenant, agent.parentId, "agents", agent.agentId);
  expect(await doctor.findings()).toEqual({});

  const foreign = { tenant: "default", parentId: "elsewhere", agentId: "worker" };
  await mkdir(placeOf(foreign), { recursive: true });
  await writeFile(
    join(placeOf(foreign), ".stamp.json"),
    JSON.stringify({ v: 1, uid: newUid(), created_at: "" }),
  );
  const unstamped = { ...foreign, agentId: "unstamped" };
  await mkdir(placeOf(unstamped), { recursive: true });
  await age(placeOf(old), 40);
  await age(placeOf(lives), 40);
  await age(placeOf(unstamped), 40);
  const found = await doctor.findings();
  const below = (path: string) => path.slice(workspaceRoot.length + 1);
  expect(found.old_workspaces).toMatchObject({ severity: "warn", names: [below(placeOf(old))] });
  expect([...(found.orphaned_workspaces?.names ?? [])].sort()).toEqual(
    [foreign, unstamped].map(placeOf).map(below).sort(),
  );
  expect(found.missing_workspaces).toBeUndefined();

  await doctor.fix();
  const left = await readdir(join(placeOf(old), ".."));
  expect(left.sort()).toEqual([lives, young].map(({ agentId }) => agentId).sort());
  expect(await readdir(join(placeOf(foreign), ".."))).toHaveLength(2);

  await rm(placeOf(lives), { recursive: true });
  expect((await doctor.findings()).missing_workspaces?.names).toEqual([nameOf(lives)]);
});

/** Makes everything in a directory look as if nothing had touched it for so many days. */
async function age(directory: string, days: number): Promise<void> {
  const then = new Date(Date.now() - days * DAY_MS);
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) await age(path, days);
    else await utimes(path, then, then);
  }
  await utimes(directory, then, then);
}
