/**
 * Guarantee: whatever another program has written under the prefix, of whatever type and value, the doctor examines all the rest,
 * and names what it could not read.
 */
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { diagnose } from "../../src/cli/doctor/checks.ts";
import type { Facts } from "../../src/cli/doctor/facts.ts";
import { type Finding, renderReport } from "../../src/cli/doctor/report.ts";
import { createStyle } from "../../src/cli/terminal/output.ts";
import { agentSegments, newUid } from "../../src/shared/protocol/ids.ts";
import { deadlineMember, type Keys } from "../../src/shared/protocol/keys.ts";
import { closeRedis, openRedis, whenAccepted } from "../../src/shared/redis/connection/connection.ts";
import { createAgentInspection } from "../../src/shared/redis/inspection.ts";
import { doctorFor } from "../helpers/doctor.ts";
import { openMonitor } from "../helpers/monitor.ts";
import { redisUrl } from "../helpers/redis.ts";
import { type Agent, openStage, SHORT_TIMING, type Stage } from "../stage/stage.ts";

const nameOf = ({ parentId, agentId }: Agent) => `${parentId}/${agentId}`;
const uidsOf = (facts: Facts) => ({
  examined: facts.agents.map(({ address }) => address.uid),
  unreadable: facts.unreadable.map(({ address }) => address.uid),
});

/** What no version writes into a field that holds a number. */
const NO_NUMBERS = ["1e20", "inf", "-inf", "nan", "0x7fffffffffffffff", "1.5", "-1", "many", ""];

test.each([
  "v",
  "deadline",
  "lease_until",
  "unanswered_since",
  "max_age_ms",
  "wake",
  "crashes_without_progress",
  "breaks",
])(
  "a %s that is no number makes this one agent unreadable at most, and the next one is examined",
  async (field) => {
    const installation = await openStage();
    const { redis, keys } = installation;
    const doctor = await doctorFor(installation);
    const victims = new Map<string, Agent>();
    for (const value of NO_NUMBERS) {
      const victim = await installation.spawn();
      await redis.hset(keys.agent(victim).record, { unanswered_since: Date.now(), [field]: value });
      victims.set(value, victim);
    }
    const sound = await installation.spawn();
    await redis.hdel(keys.parent(sound).live, sound.uid);
    const { facts, findings } = await doctor.look();
    const { examined, unreadable } = uidsOf(facts);
    const all = [...victims.values(), sound].map(({ uid }) => uid);
    expect([...examined, ...unreadable].sort()).toEqual(all.sort());
    expect(unreadable).toContain(victims.get("1e20")?.uid);
    expect(findings.find(({ check }) => check === "uncounted")?.names).toEqual([nameOf(sound)]);
    expect(findings.find(({ check }) => check === "unreadable")?.count).toBe(unreadable.length);
  },
);

/** Texts as no version writes them, each once in a field. */
const NO_TEXTS = [
  "\u001b]0;owned\u0007\u001b[2J",
  "../../../etc",
  "\u202etxt",
  "__proto__",
  "{",
  "x".repeat(99_999),
];

test.each(["agent_id", "status", "worker", "spec"])(
  "a %s of another program keeps no agent from being examined, and nothing of it reaches the terminal as it is",
  async (field) => {
    const installation = await openStage();
    const { redis, keys, prefix } = installation;
    const doctor = await doctorFor(installation);
    const victims: Agent[] = [];
    for (const value of NO_TEXTS) {
      const victim = await installation.spawn();
      await redis.hset(keys.agent(victim).record, field, value);
      victims.push(victim);
    }
    const sound = await installation.spawn();
    const { facts } = await doctor.look();
    const { examined, unreadable } = uidsOf(facts);
    const all = [...victims, sound].map(({ uid }) => uid);
    expect([...examined, ...unreadable].sort()).toEqual(all.sort());
    const { areas, findings } = diagnose(facts);
    const report = {
      v: 1,
      status: "errors",
      checked_at: "",
      redis: "",
      prefix,
      errors: 1,
      warnings: 0,
    } as const;
    const shown = renderReport({ ...report, areas, findings }, 80, createStyle(false)).join("\n");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the purpose
    expect(shown).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
  },
);

/** The keys that many agents share, but those whose names stand in another one of them. */
const ROOTS: readonly ((keys: Keys) => string)[] = [
  (keys) => keys.deadlines,
  (keys) => keys.hintGrace,
  (keys) => keys.parents,
  (keys) => keys.tenantParents("default"),
  (keys) => keys.workers,
  (keys) => keys.paused,
  (keys) => keys.apiKeys,
  (keys) => keys.webhooks,
  (keys) => keys.webhooksDue,
  (keys) => keys.webhookHolders,
  (keys) => keys.callbacks,
  (keys) => keys.callbackLock,
  (keys) => keys.limiters,
  (keys) => keys.intake,
  (keys) => keys.intakeRefused,
  (keys) => keys.fairPeriod,
  (keys) => keys.fairTenant("default"),
  (keys) => keys.rankedWakes,
  (keys) => keys.delayedWakes,
  ...[
    "wait",
    "active",
    "paused",
    "meta",
    "events",
    "marker",
    "id",
    "pc",
    "stalled",
    "completed",
    "failed",
  ].map((part) => (keys: Keys) => `${keys.bullPrefix}:${keys.wakeQueue}:${part}`),
];
const LEAVES: readonly ((keys: Keys) => string)[] = [
  (keys) => keys.worker("host-1"),
  (keys) => keys.limiter("anthropic/m"),
  (keys) => keys.limiterHolders("anthropic/n"),
  (keys) => keys.limiterWaiting("anthropic/o"),
];

/** The only ones of them that are lists. */
const LISTS = /:wakes:(?:wait|active|paused)$/;

/** Puts a key of another type in the place of each. */
async function mistype({ redis }: Stage, keys: readonly string[]): Promise<void> {
  for (const key of keys) {
    await redis.del(key);
    if (LISTS.test(key)) await redis.set(key, "not ours");
    else await redis.rpush(key, "not ours");
  }
}

/** Every key that is named as one of the wrong type, without what is said of it. */
const named = (findings: Record<string, Finding>) =>
  (findings.wrong_types?.names ?? []).map((name) => name.replace(/ \(.*$/, "")).sort();

test.each([
  { what: "shared", chosen: ROOTS },
  { what: "listed", chosen: LEAVES },
])(
  "$what keys of another type are named all, moved aside by --fix, and keep no agent from being examined",
  async ({ chosen }) => {
    const installation = await openStage();
    const { redis, keys } = installation;
    const doctor = await doctorFor(installation);
    const budgets = { agent: { max_total_tokens: 1_000 } };
    const agent = await installation.spawn({ budgets });
    const lost = { ...agent, parentId: "elsewhere", uid: newUid() };
    await redis.hset(keys.agent(lost).log, "0", "{}");
    await redis.sadd(keys.limiters, "anthropic/m", "anthropic/n", "anthropic/o");
    for (const name of ["anthropic/m", "anthropic/n", "anthropic/o"])
      await redis.hset(keys.limiter(name), { state: "limited", until: Date.now() + 60_000, limit: 1 });
    await redis.sadd(keys.workers, "host-1");
    const budget = keys.budget(`agent/${agent.tenant}/${agent.parentId}/${agent.uid}`);
    const wrong = [...chosen.map((spell) => spell(keys)), budget];
    await mistype(installation, wrong);
    const found = await doctor.findings();
    expect(named(found)).toEqual(wrong.sort());
    expect(found.wrong_types).toMatchObject({ severity: "error", fixable: true });
    expect(found.orphaned_keys?.names).toContain(`elsewhere/${lost.uid}`);

    await doctor.fix();
    const { provider_closed: _, ...left } = await doctor.findings();
    expect(left).toEqual({});
    for (const key of wrong) {
      const [aside = ""] = await redis.keys(`${key.replace("}:", "}:aside:")}:*`);
      expect(await redis.type(aside), key).toMatch(/^(list|string)$/);
    }
  },
);

test("a record of a live agent without its set of deadlines is watched again once the key was moved aside", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const agent = await installation.spawn();
  await mistype(installation, [keys.deadlines]);
  const found = await doctor.findings();
  expect(Object.keys(found).sort()).toEqual(["deadline_missing", "wrong_types"]);
  await doctor.fix();
  expect(await redis.zscore(keys.deadlines, deadlineMember(agent))).not.toBeNull();
});

test("values that no version writes into the keys that all share are told, or passed over", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const budgets = { agent: { max_total_tokens: 1_000 } };
  const [agent, poor] = [await installation.spawn(), await installation.spawn({ budgets })];
  await redis.zadd(keys.deadlines, "+inf", deadlineMember(agent), "-inf", "no agent at all");
  await redis.hset(keys.budget(`agent/default/${poor.parentId}/${poor.uid}`), "t/0", "inf");
  await redis.xadd(keys.intakeRefused, "*", "what", "is this");
  await redis.sadd(keys.workers, "none", "broken", "endless");
  await redis.set(keys.worker("broken"), "{");
  await redis.set(
    keys.worker("endless"),
    '{"v":1,"id":"endless","host":"h","version":"1","tools":[],"concurrency":1e99}',
  );
  await redis.sadd(keys.limiters, "a", "b", "c", "d");
  await redis.hset(keys.limiter("a"), { state: "limited", until: "inf", limit: "nan", reason: "x" });
  await redis.hset(keys.limiter("b"), { state: "limited", until: "9e15", limit: "inf", reason: "x" });
  await redis.hset(keys.limiter("c"), { state: "limited", until: "many", reason: "x" });
  await redis.hset(keys.limiter("d"), { what: "is this" });
  await redis.zadd(keys.rankedWakes, 1, `${newUid()}.1`);
  const [job = ""] = await redis.zrange(keys.rankedWakes, 0, 0);
  await redis.hset(keys.wakeJob(job), { name: "x", data: "{", opts: "{", timestamp: "many" });
  const found = await doctor.findings();
  expect(Object.keys(found).sort()).toEqual([
    "budgets",
    "deadline_missing",
    "provider_closed",
    "refused_entries",
    "stray_members",
  ]);
  expect(found.deadline_missing?.names).toEqual([nameOf(agent)]);
  expect(found.stray_members?.names).toEqual(["no agent at all"]);
  expect(found.budgets?.names).toEqual([`agent ${nameOf(poor)} (unreadable)`]);
  const last = "until +275760-09-13T00:00:00.000Z";
  expect(found.provider_closed?.names).toEqual([
    `a closed (x) ${last}`,
    `b closed (x) ${last}`,
    "c slowed (x)",
  ]);

  await doctor.fix();
  const { deadline_missing, stray_members } = await doctor.findings();
  expect({ deadline_missing, stray_members }).toEqual({
    deadline_missing: undefined,
    stray_members: undefined,
  });
});

test("a workspace whose agent a registry of another type may still name is not called over", async () => {
  const installation = await openStage();
  const { redis, keys, workspaceRoot } = installation;
  const doctor = await doctorFor(installation);
  const agent = await installation.spawn();
  await redis.del(keys.agent(agent).record);
  const place = join(workspaceRoot, ...agentSegments(agent, agent.agentId));
  await mkdir(place, { recursive: true });
  const stamp = join(place, ".stamp.json");
  await writeFile(stamp, JSON.stringify({ v: 1, uid: agent.uid, created_at: "" }));
  const old = new Date(Date.now() - 40 * 86_400_000);
  for (const path of [stamp, place]) await utimes(path, old, old);
  expect((await doctor.findings()).old_workspaces?.count).toBe(1);
  await mistype(installation, [keys.parent(agent).registry]);
  const found = await doctor.findings();
  expect([found.old_workspaces, found.orphaned_workspaces]).toEqual([undefined, undefined]);
});

test("a pause that cannot be read is a pause, whatever its key holds", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  await redis.set(keys.paused, "{");
  expect(Object.keys(await doctor.findings())).toEqual(["paused"]);
  await mistype(installation, [keys.paused]);
  expect(Object.keys(await doctor.findings()).sort()).toEqual(["paused", "wrong_types"]);
});

test("entries of a log that are no JSON keep no agent from being examined, and of a log only its short start marks are read", async () => {
  const installation = await openStage({ redis: "own" });
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const [broken, wrote] = [await installation.spawn(), await installation.spawn()];
  await redis.hset(keys.agent(broken).log, "1/a/started", "{", "1/b/started", "null", "1/c/started", "[1]");
  const mark = JSON.stringify({ v: 1, name: "bash" });
  const log = { "0": "x".repeat(500_000), "1/a/started": `${mark}${" ".repeat(5_000)}`, "1/b/started": mark };
  await redis.hset(keys.agent(wrote).log, log);
  await redis.rpush(keys.agent(wrote).inbox, "{");

  const commands: string[][] = [];
  const monitor = await openMonitor(installation.url, (_, command) => commands.push(command));
  const found = await doctor.findings();
  await monitor.caughtUp();
  monitor.stop();
  expect(found.missing_workspaces?.names).toEqual([nameOf(wrote)]);
  const { log: logKey, inbox } = keys.agent(wrote);
  const about = (key: string) => commands.filter((command) => command[1] === key);
  const read = about(logKey).filter(([name = ""]) => /^hmget|^hget|^hvals|^hscan/i.test(name));
  expect(read).toEqual([[expect.stringMatching(/^hmget$/i), logKey, "1/b/started"]]);
  expect(about(inbox).filter(([name = ""]) => /^lrange|^lindex/i.test(name))).toEqual([]);
});

test("a connection that fails is no agent's fault: nothing is called unreadable", async () => {
  const { keys, wakes, ...installation } = await openStage();
  const agent = await installation.spawn();
  const redis = openRedis(redisUrl(), "producer");
  await whenAccepted(redis);
  const inspection = createAgentInspection(redis, keys, wakes, SHORT_TIMING);
  expect((await inspection.inspect([agent], 0)).snapshots).toHaveLength(1);
  closeRedis(redis);
  await expect(inspection.inspect([agent], 0)).rejects.toThrow(/closed|writeable/i);
});
