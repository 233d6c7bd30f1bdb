import { execFileSync } from "node:child_process";
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  deleteWorkspace,
  findDirectories,
  isUntouchedSince,
  stampIn,
} from "../../../../src/cli/doctor/workspaces.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

const UID = "sa-000000000000000000000001";

function place() {
  const root = mkdtempSync(join(tmpdir(), "survey-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  const make = (path: string, uid: string | undefined = UID) => {
    const directory = join(root, path);
    mkdirSync(join(directory, "workspace"), { recursive: true });
    if (uid) writeFileSync(join(directory, ".stamp.json"), JSON.stringify({ v: 1, uid, created_at: "" }));
    return directory;
  };
  return { root, make };
}

test("every workspace is found, and nothing that could not be one", async () => {
  const { root, make } = place();
  make("acme/p/agents/a");
  make("acme/p/agents/b", "");
  make("acme/p/agents/.hidden");
  make("acme/p/agents/Not An Agent");
  make("acme/p/elsewhere/c");
  mkdirSync(join(root, "lost+found"));
  symlinkSync(join(root, "acme"), join(root, "linked"));
  const places = await findDirectories(root);
  expect(places?.sort((one, other) => one.path.localeCompare(other.path))).toEqual([
    { tenant: "acme", parentId: "p", agentId: "a", path: "acme/p/agents/a" },
    { tenant: "acme", parentId: "p", agentId: "b", path: "acme/p/agents/b" },
  ]);
  expect(await findDirectories(join(root, "nowhere"))).toBeUndefined();
});

test("a stamp names its agent; one that is a link or no JSON names none", async () => {
  const { make } = place();
  expect(await stampIn(make("t/p/agents/c"))).toBe(UID);
  expect(await stampIn(make("t/p/agents/d", ""))).toBeUndefined();
  const linked = make("t/p/agents/a", "");
  symlinkSync("/etc/hostname", join(linked, ".stamp.json"));
  expect(await stampIn(linked)).toBeUndefined();
  const broken = make("t/p/agents/b", "");
  writeFileSync(join(broken, ".stamp.json"), "{");
  expect(await stampIn(broken)).toBeUndefined();
});

test("one young file far below keeps a workspace young; links are not followed", async () => {
  const { make } = place();
  const directory = make("t/p/agents/a");
  mkdirSync(join(directory, "workspace", "deep"));
  const file = join(directory, "workspace", "deep", "file");
  writeFileSync(file, "x");
  const old = new Date(1_000_000);
  for (const path of [
    file,
    join(directory, "workspace", "deep"),
    join(directory, "workspace"),
    join(directory, ".stamp.json"),
    directory,
  ]) {
    utimesSync(path, old, old);
  }
  const sinceMs = Date.now() - 60_000;
  expect(await isUntouchedSince(directory, sinceMs)).toBe(true);
  utimesSync(file, new Date(), new Date());
  expect(await isUntouchedSince(directory, sinceMs)).toBe(false);
});

test("a workspace is deleted whole; what its links lead to, and one that another agent took, stay", async () => {
  const { root, make } = place();
  const outside = mkdtempSync(join(tmpdir(), "outside-"));
  closeAtEnd(() => rmSync(outside, { recursive: true, force: true }));
  writeFileSync(join(outside, "precious"), "x");
  const directory = make("t/p/agents/a");
  symlinkSync(outside, join(directory, "workspace", "out"));
  const found = { tenant: "t", parentId: "p", agentId: "a", path: "t/p/agents/a", uid: UID };
  expect(await deleteWorkspace(root, { ...found, uid: "sa-00000000000000000000000f" })).toBe(false);
  expect(readdirSync(join(root, "t/p/agents"))).toEqual(["a"]);
  expect(await deleteWorkspace(root, found)).toBe(true);
  expect(readdirSync(join(root, "t/p/agents"))).toEqual([]);
  expect(lstatSync(join(outside, "precious")).isFile()).toBe(true);
});

test("deletes what an agent left to stay: names that are no text, directories that are shut or too deep for a path", async () => {
  const { root, make } = place();
  const cwd = join(make("t/p/agents/a"), "workspace");
  const name = "d".repeat(250);
  const script = `mkdir $'\\xff' shut && touch $'\\xff/x' shut/x && chmod 0 shut; for i in $(seq 20); do mkdir ${name} && cd ${name}; done`;
  execFileSync("/bin/bash", ["-c", script], { cwd });
  const found = { tenant: "t", parentId: "p", agentId: "a", path: "t/p/agents/a", uid: UID };
  expect(await deleteWorkspace(root, found)).toBe(true);
  expect(readdirSync(join(root, "t/p/agents"))).toEqual([]);
});
