/** Guarantee: a workspace that cannot be deleted does not end the doctor, and stays in its report. */
import { existsSync } from "node:fs";
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { agentSegments } from "../../src/shared/protocol/ids.ts";
import { doctorFor } from "../helpers/doctor.ts";
import { openStage } from "../stage/stage.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

test("where the system refuses the deletion, --fix goes on without it", async () => {
  const stage = await openStage();
  const { redis, keys, workspaceRoot } = stage;
  const doctor = await doctorFor(stage);
  const agent = await stage.spawn();
  await redis.del(keys.agent(agent).record);
  const directory = join(workspaceRoot, ...agentSegments(agent, agent.agentId));
  await mkdir(directory, { recursive: true });
  const stamp = join(directory, ".stamp.json");
  await writeFile(stamp, JSON.stringify({ v: 1, uid: agent.uid, created_at: "" }));
  const longAgo = new Date(Date.now() - 40 * 86_400_000);
  for (const path of [stamp, directory]) await utimes(path, longAgo, longAgo);
  const { facts } = await doctor.look();
  // A system that refuses, also for the user who may do everything: `rm` cannot be started.
  vi.stubEnv("PATH", "/nowhere");
  await doctor.repair(facts);
  vi.unstubAllEnvs();
  expect(existsSync(stamp)).toBe(true);
  expect((await doctor.findings()).old_workspaces?.count).toBe(1);
});
