/** Guarantee: resuming a long conversation keeps Redis from no other client: it is copied in pages, and only if the agent is spawned. */
import { expect, test } from "vitest";
import { refusal } from "../../helpers/parents.ts";
import { type OwnStage, openStage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "planner-7" };

/** How often Redis has executed a command. */
async function calls(stage: OwnStage, command: string): Promise<number> {
  const stats = await stage.observer.info("commandstats");
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

/** An agent that has ended, whose conversation has so many answers of 100,000 characters. */
async function ended(stage: OwnStage, answers: number): Promise<string> {
  const worker = stage.scriptedWorker();
  const parent = stage.parent("planner-7", { transcript_ms: 3_600_000 });
  const { agent_id } = await parent.spawn({ name: "worker" });
  await parent.send(agent_id, "start");
  await worker.run(agent_id);
  const uid = (await stage.store.uidOf(PARENT, agent_id)) ?? "";
  const { transcript, record } = stage.keys.agent({ ...PARENT, uid });
  const answer = JSON.stringify({ v: 1, filler: "x".repeat(100_000) });
  for (let n = 0; n < answers; n += 1) await stage.observer.hset(transcript, `${n}/filler`, answer);
  await stage.observer.hset(record, "log_bytes", answers * 100_000);
  return agent_id;
}

async function logOf(stage: OwnStage, agentId: string) {
  const uid = (await stage.store.uidOf(PARENT, agentId)) ?? "";
  return stage.keys.agent({ ...PARENT, uid }).log;
}

test("a conversation of 3 MB is copied whole and never by one command; a short one by the spawn", async () => {
  const stage = await openStage({ redis: "own" });
  const parent = stage.parent();
  const long = await ended(stage, 30);
  const short = await ended(stage, 3);
  const { agent_id } = await parent.resume(long, "go on");
  expect(await calls(stage, "copy")).toBe(0);
  const log = await logOf(stage, agent_id);
  const before = (await logOf(stage, long)).replace(/log$/, "transcript");
  expect(await stage.observer.hgetall(log)).toEqual(await stage.observer.hgetall(before));
  expect(await stage.observer.pttl(log)).toBe(-1);
  await parent.resume(short, "go on");
  expect(await calls(stage, "copy")).toBe(1);
});

test("nothing is copied for an agent that is there already, or for which there is no room", async () => {
  const stage = await openStage({ redis: "own" });
  const parent = stage.parent();
  const long = await ended(stage, 30);
  const first = await parent.resume(long, "go on", { request_key: "once" });
  const logs = async () => (await stage.observer.keys("*:log")).length;
  expect(await logs()).toBe(1);
  expect(await parent.resume(long, "go on", { request_key: "once" })).toEqual({ ...first, known: true });
  for (let n = 1; n < 10; n += 1) await parent.spawn({ name: "another" });
  await expect(parent.resume(long, "again")).rejects.toMatchObject(refusal("quota_exceeded"));
  expect(await logs()).toBe(1);
});
