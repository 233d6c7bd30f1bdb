/** Guarantee: the doctor finishes a deletion that was cut off, and leaves the workspaces of other installations alone. */
import { existsSync } from "node:fs";
import { mkdir, readFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { agentSegments, newUid, STAMP_NAME } from "../../src/shared/protocol/ids.ts";
import { doctorFor } from "../helpers/doctor.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

const LONG_AGO = new Date(Date.now() - 40 * 86_400_000);

test("--fix removes what a deletion left that was cut off, and no workspace of another prefix in the same directory", async () => {
  const { workspaceRoot, ...stage } = await openStage();
  const doctor = await doctorFor({ workspaceRoot, ...stage });
  const owner = { tenant: "default", parentId: "parent-0" };
  const make = async (name: string, stamp: object | undefined) => {
    const directory = join(workspaceRoot, ...agentSegments(owner, name));
    await mkdir(directory, { recursive: true });
    const file = join(directory, STAMP_NAME);
    if (stamp) await writeFile(file, JSON.stringify({ v: 1, created_at: "", ...stamp }));
    for (const path of stamp ? [file, directory] : [directory]) await utimes(path, LONG_AGO, LONG_AGO);
    return directory;
  };
  const uids = [newUid(), newUid(), newUid(), newUid()] as const;
  const moved = await make(`.deleted-${uids[0]}`, { uid: uids[0] });
  const halfGone = await make(`.deleted-${uids[1]}`, undefined);
  const own = await make("own", { uid: uids[2], prefix: stage.prefix });
  const foreign = await make("foreign", { uid: uids[3], prefix: `${stage.prefix}-other` });
  const { facts } = await doctor.look();
  await doctor.repair(facts);
  expect([moved, halfGone, own, foreign].map((path) => existsSync(path))).toEqual([
    false,
    false,
    false,
    true,
  ]);
  expect((await doctor.findings()).orphaned_workspaces?.names).toEqual(["default/parent-0/agents/foreign"]);
});

test("a worker names its prefix in the stamp of a workspace", async () => {
  const content = [
    { type: "tool_use" as const, name: "write_file", input: { file_path: "a", content: "a" } },
  ];
  const { workspaceRoot, prefix, ...stage } = await openStage({
    scenario: { turns: [{ content }], repeat: true },
  });
  await stage.startWorker();
  const agent = await stage.task("write");
  const stamp = join(workspaceRoot, ...agentSegments(agent, agent.agentId), STAMP_NAME);
  await until(() => existsSync(stamp));
  expect(JSON.parse(await readFile(stamp, "utf8"))).toMatchObject({ uid: agent.uid, prefix });
});
