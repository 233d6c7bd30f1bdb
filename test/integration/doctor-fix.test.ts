/** Guarantee: what `--fix` repairs is looked at once more right before: the installation went on since the examination. */
import { existsSync } from "node:fs";
import { mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Facts, WorkspaceSnapshot } from "../../src/cli/doctor/facts.ts";
import { agentSegments } from "../../src/shared/protocol/ids.ts";
import { deadlineMember } from "../../src/shared/protocol/keys.ts";
import { doctorFor, type TestDoctor } from "../helpers/doctor.ts";
import { type Agent, openStage, type Stage } from "../stage/stage.ts";

const LONG_AGO = new Date(Date.now() - 40 * 86_400_000);

/** The agent's workspace with one file, untouched for 40 days, and what an examination said of it. */
async function oldWorkspace({ workspaceRoot }: Stage, agent: Agent): Promise<WorkspaceSnapshot> {
  const { tenant, parentId, agentId, uid } = agent;
  const path = join(...agentSegments({ tenant, parentId }, agentId));
  const directory = join(workspaceRoot, path);
  await mkdir(directory, { recursive: true });
  const stamp = join(directory, ".stamp.json");
  await writeFile(stamp, JSON.stringify({ v: 1, uid, created_at: "" }));
  await utimes(stamp, LONG_AGO, LONG_AGO);
  await utimes(directory, LONG_AGO, LONG_AGO);
  return { tenant, parentId, agentId, uid, path, agentState: "ended", isDeletable: true };
}

/** What was found, but with these workspaces. */
async function factsWith(doctor: TestDoctor, directories: WorkspaceSnapshot[]): Promise<Facts> {
  const { facts } = await doctor.look();
  return { ...facts, workspaces: { ...facts.workspaces, isThere: true, directories } };
}

test("a workspace is deleted only if at a second look its agent has ended and nothing in it has changed since", async () => {
  const installation = await openStage();
  const doctor = await doctorFor(installation);
  const [over, lives, touched] = [
    await installation.spawn(),
    await installation.spawn(),
    await installation.spawn(),
  ];
  for (const agent of [over, touched]) await installation.destroy(agent);
  const found = [];
  for (const agent of [over, lives, touched]) found.push(await oldWorkspace(installation, agent));
  const facts = await factsWith(doctor, found);
  const directories = found.map(({ path }) => join(installation.workspaceRoot, path));
  await writeFile(join(directories[2] ?? "", "note.txt"), "written since");
  await doctor.repair(facts);
  expect(directories.map((directory) => existsSync(directory))).toEqual([false, true, true]);
});

test("a workspace that another agent has taken since stays", async () => {
  const installation = await openStage();
  const doctor = await doctorFor(installation);
  const agent = await installation.spawn();
  await installation.destroy(agent);
  const found = await oldWorkspace(installation, agent);
  const facts = await factsWith(doctor, [{ ...found, uid: "sa-00000000000000000000000f" }]);
  await doctor.repair(facts);
  expect(await readdir(join(installation.workspaceRoot, found.path))).toEqual([".stamp.json"]);
});

test("a key of the wrong type that has become right since stays where it is", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const agent = await installation.spawn();
  const { inbox } = keys.agent(agent);
  await redis.set(inbox, "no list");
  const { facts } = await doctor.look();
  expect(facts.mistyped).toMatchObject([{ key: inbox, expected: "list" }]);
  await redis.del(inbox);
  await redis.rpush(inbox, "a list by now");
  await doctor.repair(facts);
  expect(await redis.lrange(inbox, 0, -1)).toEqual(["a list by now"]);
});

test("a key that is made right between the look and the move goes back to its name", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const agent = await installation.spawn();
  const { inbox } = keys.agent(agent);
  await redis.set(inbox, "no list");
  const { facts } = await doctor.look();
  await doctor.repair(facts, async (move) => {
    await redis.del(inbox);
    await redis.rpush(inbox, "a list by now");
    return move();
  });
  expect(await redis.lrange(inbox, 0, -1)).toEqual(["a list by now"]);
});

test("an agent that lacked nothing but a key of the right type is repaired with it", async () => {
  const installation = await openStage();
  const { redis, keys } = installation;
  const doctor = await doctorFor(installation);
  const agent = await installation.spawn();
  const { live } = keys.parent(agent);
  await redis.del(live);
  await redis.set(live, "no hash");
  await doctor.fix();
  expect(await redis.hkeys(live)).toEqual([agent.uid]);
});

test("a repair leaves an installation without troubles as it is", async () => {
  const installation = await openStage();
  const doctor = await doctorFor(installation);
  const agent = await installation.task("nobody works here");
  const { redis, keys } = installation;
  const look = () => redis.zscore(keys.deadlines, deadlineMember(agent));
  const [record, at] = [await installation.record(agent), await look()];
  await doctor.fix();
  expect([await installation.record(agent), await look()]).toEqual([record, at]);
});
