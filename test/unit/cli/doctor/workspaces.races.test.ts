/** Workspaces that change while they are looked at or deleted, and how much of one is read. */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { expect, test } from "vitest";
import { deleteWorkspace, isUntouchedSince, readWorkspaces } from "../../../../src/cli/doctor/workspaces.ts";
import { createAgentInspection } from "../../../../src/shared/redis/inspection.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { until } from "../../../helpers/until.ts";
import { openStage } from "../../../stage/stage.ts";

const UID = "sa-000000000000000000000001";
const OTHER = "sa-000000000000000000000002";

function place(): string {
  const root = mkdtempSync(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

const stamp = (uid: string) => JSON.stringify({ v: 1, uid, created_at: "" });

test("a directory that another agent takes while it is deleted stays where it is", async () => {
  const root = place();
  const agents = join(root, "t/p/agents");
  mkdirSync(join(agents, "a"), { recursive: true });
  writeFileSync(join(agents, "a", ".stamp.json"), stamp(UID));
  // The deletion's first program gives the directory to the other agent.
  const programs = place();
  const taking = `#!/bin/sh\nprintf '%s' '${stamp(OTHER)}' > '${join(agents, "a", ".stamp.json")}'\n`;
  writeFileSync(join(programs, "chmod"), taking);
  chmodSync(join(programs, "chmod"), 0o755);
  const path = process.env.PATH;
  closeAtEnd(() => {
    process.env.PATH = path;
  });
  process.env.PATH = `${programs}${delimiter}${path}`;
  const found = { tenant: "t", parentId: "p", agentId: "a", path: "t/p/agents/a", uid: UID };
  expect(await deleteWorkspace(root, found)).toBe(false);
  expect([readdirSync(agents), readdirSync(join(agents, "a"))]).toEqual([["a"], [".stamp.json"]]);
});

test("of a workspace 10,000 entries are read; one with more counts as changed", async () => {
  const directory = join(place(), "a");
  mkdirSync(directory);
  const add = (count: number, stem: string) => {
    for (let n = 0; n < count; n += 1) {
      const file = join(directory, `${stem}${n}`);
      writeFileSync(file, "");
      utimesSync(file, 1, 1);
    }
    utimesSync(directory, 1, 1);
  };
  add(9_999, "file-");
  expect(await isUntouchedSince(directory, Date.now())).toBe(true);
  add(1, "more-");
  expect(await isUntouchedSince(directory, Date.now())).toBe(false);
});

test("a directory whose stamp is about to be written is looked at once more", async () => {
  const { redis, keys, wakes, store, ...stage } = await openStage();
  const agent = await stage.spawn();
  const root = place();
  const directories = ["a", "b"].map((agentId) =>
    join(root, agent.tenant, agent.parentId, "agents", agentId),
  );
  for (const directory of directories) mkdirSync(directory, { recursive: true });
  const clock = handClock();
  const inspection = createAgentInspection(redis, keys, wakes, store.timing);
  const reading = readWorkspaces({ workspaceRoot: root, clock, inspection, store }, []);
  await until(() => clock.pending === 1);
  writeFileSync(join(directories[0] ?? "", ".stamp.json"), stamp(agent.uid));
  clock.advance(1_500);
  expect((await reading).directories).toMatchObject([
    { agentId: "a", uid: agent.uid, agentState: "live" },
    { agentId: "b", uid: undefined, agentState: "unknown" },
  ]);
});
