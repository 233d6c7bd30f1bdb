/** Guarantee: what Redis does not say for certain deletes no files. */
import { existsSync } from "node:fs";
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { WorkspaceSnapshot } from "../../src/cli/doctor/facts.ts";
import { agentSegments } from "../../src/shared/protocol/ids.ts";
import { doctorFor } from "../helpers/doctor.ts";
import { type Agent, openStage, type Stage } from "../stage/stage.ts";

const LONG_AGO = new Date(Date.now() - 40 * 86_400_000);

/** The agent's old workspace, which an examination took for deletable. */
async function oldWorkspace({ workspaceRoot }: Stage, agent: Agent): Promise<WorkspaceSnapshot> {
  const { tenant, parentId, agentId, uid } = agent;
  const path = join(...agentSegments({ tenant, parentId }, agentId));
  const directory = join(workspaceRoot, path);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, ".stamp.json"), JSON.stringify({ v: 1, uid, created_at: "" }));
  for (const each of [join(directory, ".stamp.json"), directory]) await utimes(each, LONG_AGO, LONG_AGO);
  return { tenant, parentId, agentId, uid, path, agentState: "ended", isDeletable: true };
}

test.each([
  [
    "whose record has a status that this version does not know",
    async ({ redis, keys }: Stage, agent: Agent) => {
      await redis.hset(keys.agent(agent).record, "status", "resting");
    },
  ],
  [
    "whose record is gone and whose parent's registry is no registry",
    async ({ redis, keys }: Stage, agent: Agent) => {
      const { registry } = keys.parent(agent);
      await redis.del(keys.agent(agent).record, registry);
      await redis.set(registry, "of another program");
    },
  ],
])("the files of an agent %s stay", async (_, spoil) => {
  const stage = await openStage();
  const doctor = await doctorFor(stage);
  const agent = await stage.spawn();
  const found = await oldWorkspace(stage, agent);
  const { facts } = await doctor.look();
  await spoil(stage, agent);
  const workspaces = { ...facts.workspaces, isThere: true, directories: [found] };
  await doctor.repair({ ...facts, workspaces });
  expect(existsSync(join(stage.workspaceRoot, found.path))).toBe(true);
});
