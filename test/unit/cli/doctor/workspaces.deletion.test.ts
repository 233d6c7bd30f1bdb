/** What a deletion finds that was interrupted, and a workspace that is not there. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { deleteWorkspace, isUntouchedSince } from "../../../../src/cli/doctor/workspaces.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

const UID = "sa-000000000000000000000001";

function place(): string {
  const root = mkdtempSync(join(tmpdir(), "deletion-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

test("a deletion goes on where an earlier one was cut off", async () => {
  const root = place();
  const agents = join(root, "t/p/agents");
  mkdirSync(join(agents, `.deleted-${UID}`, "workspace"), { recursive: true });
  mkdirSync(join(agents, "a"));
  writeFileSync(join(agents, "a", ".stamp.json"), JSON.stringify({ v: 1, uid: UID, created_at: "" }));
  const found = { tenant: "t", parentId: "p", agentId: "a", path: "t/p/agents/a", uid: UID };
  expect(await deleteWorkspace(root, found)).toBe(true);
  expect(readdirSync(agents)).toEqual([]);
});

test("a workspace that cannot be read counts as changed", async () => {
  const gone = join(place(), "gone");
  expect([existsSync(gone), await isUntouchedSince(gone, Date.now())]).toEqual([false, false]);
});
