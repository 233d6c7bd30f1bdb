import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { writeWhole } from "../../../../../src/worker/tools/files/file.ts";
import { chownWorkspace, UNPRIVILEGED } from "../../../../../src/worker/tools/sandbox/mount.ts";
import { openWorkspace, type Workspace } from "../../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

const isRoot = process.getuid?.() === 0;
const { signal } = new AbortController();

async function workspaceOf(): Promise<Workspace> {
  const root = mkdtempSync(join(tmpdir(), "mount-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  const options = {
    root,
    tenant: "default",
    parentId: "p",
    agentId: "a",
    uid: "u",
    roots: [],
    expected: false,
  };
  return (await openWorkspace({ ...options, clock: systemClock })).workspace;
}

const write = (workspace: Workspace, path: string) =>
  writeWhole(workspace, path, Buffer.from("text"), signal);

/** Who owns what stands in the workspace. */
const ownerOf = ({ directory }: Workspace, path = ".") => lstatSync(join(directory, path)).uid;

describe.runIf(isRoot)("the workspace of commands that root drops its rights for", () => {
  it("is theirs with all that the file tools wrote before the first command", async () => {
    const workspace = await workspaceOf();
    await write(workspace, "notes/today.txt");
    expect(ownerOf(workspace, "notes/today.txt")).toBe(0);
    await chownWorkspace(workspace.directory);
    const owners = [".", "notes", "notes/today.txt"].map((path) => ownerOf(workspace, path));
    expect(owners).toEqual([UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED]);
  });

  it("stays theirs: what the file tools make or replace later belongs to the owner of its directory", async () => {
    const workspace = await workspaceOf();
    await chownWorkspace(workspace.directory);
    for (const path of ["new/deep/file.txt", "new/deep/file.txt", "other.txt"]) await write(workspace, path);
    const owners = ["new", "new/deep", "new/deep/file.txt", "other.txt"].map((path) =>
      ownerOf(workspace, path),
    );
    expect(new Set(owners)).toEqual(new Set([UNPRIVILEGED]));
  });

  it("is not walked again, whatever commands left in it", async () => {
    const workspace = await workspaceOf();
    await chownWorkspace(workspace.directory);
    writeFileSync(join(workspace.directory, "left"), "");
    await chownWorkspace(workspace.directory);
    expect(ownerOf(workspace, "left"), "a walk would have given it away").toBe(0);
  });

  it("is walked again after a walk that was cut off, and a file with a second name keeps its owner", async () => {
    const workspace = await workspaceOf();
    const outside = join(workspace.hidden, "outside");
    writeFileSync(outside, "");
    linkSync(outside, join(workspace.directory, "second-name"));
    mkdirSync(join(workspace.directory, "given"));
    chownSync(join(workspace.directory, "given"), UNPRIVILEGED, UNPRIVILEGED);
    writeFileSync(join(workspace.directory, "given/left"), "");
    chmodSync(join(workspace.directory, "given"), 0o000);
    await chownWorkspace(workspace.directory);
    expect(ownerOf(workspace, "given/left")).toBe(UNPRIVILEGED);
    expect(ownerOf(workspace, "second-name")).toBe(0);
  });
});
