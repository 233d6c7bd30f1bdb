/** Guarantee: what a first `start --once` or `run` without REDIS_URL leaves behind worries nobody; files without an agent do. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findingsIn } from "../../../../src/cli/doctor/checks.ts";
import { readWorkspaces, type WorkspaceContext } from "../../../../src/cli/doctor/workspaces.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { facts } from "./samples.ts";

/** Workspaces of which Redis knows no agent, by name, each with its files. */
async function findings(workspaces: Readonly<Record<string, readonly string[]>>) {
  const root = mkdtempSync(join(tmpdir(), "empty-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  for (const [name, files] of Object.entries(workspaces)) {
    const directory = join(root, "default", "cli", "agents", name);
    mkdirSync(join(directory, "workspace"), { recursive: true });
    const stamp = { v: 1, uid: "sa-000000000000000000000001", created_at: "" };
    writeFileSync(join(directory, ".stamp.json"), JSON.stringify(stamp));
    for (const file of files) writeFileSync(join(directory, file), "x");
  }
  const context = {
    ...{ workspaceRoot: root, clock: systemClock },
    inspection: { inspect: async () => ({ snapshots: [], unreadable: [] }) },
    store: { uidOf: async () => undefined, hasBegun: async () => false },
  } as unknown as WorkspaceContext;
  return findingsIn(facts({ workspaces: await readWorkspaces(context, []) }));
}

test("a workspace without a file, of an agent that no Redis knows any more, is in order", async () => {
  expect(await findings({ testing_framework: [], lua_scripts: [] })).toEqual([]);
});

test("one with a file, in it or beside it, is named, since only its owner knows whether it may go", async () => {
  const found = await findings({
    reader: [],
    writer: ["workspace/report.md"],
    traced: ["conversation.jsonl"],
  });
  expect(found).toMatchObject([{ check: "orphaned_workspaces", count: 2 }]);
  expect(found[0]?.names.map((name) => name.split("/").at(-1)).sort()).toEqual(["traced", "writer"]);
});
