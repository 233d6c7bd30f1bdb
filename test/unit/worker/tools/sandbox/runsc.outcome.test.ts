/** Guarantee: a command in gVisor carries over no directory that it may not start in, and names what was hidden from it. */
import { lstatSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createRunsc, ociConfig } from "../../../../../src/worker/tools/sandbox/runsc.ts";
import type { Workspace } from "../../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { openScene } from "../scene.ts";

const asRoot = process.getuid?.() === 0;
const scene = await openScene();

/** Runs a program in the place of runsc, which stands on no machine of ours. */
async function run(program: string, workspace: Workspace = scene.workspace) {
  const runsc = join(scene.base, "runsc");
  writeFileSync(runsc, `#!/bin/bash\n${program}\n`, { mode: 0o755 });
  const { signal } = new AbortController();
  const runner = createRunsc({ clock: systemClock, asRoot, runsc });
  return runner?.run({ script: "true", workspace, timeoutMs: 20_000, signal });
}

it("a directory outside of what it sees is not where the next command starts", async () => {
  expect(await run("echo ready >&3; echo /workspace/below >&3")).toMatchObject({ cwd: "/workspace/below" });
  expect(await run("echo ready >&3; echo /usr >&3")).not.toHaveProperty("cwd");
});

it("an opened directory that is hidden from it is named, with the reason", async () => {
  const around = { kind: "root", path: scene.base, shownAs: "/srv/all", writable: false } as const;
  expect(await run("true", { ...scene.workspace, roots: [around] })).toMatchObject({
    withheld: ["/srv/all (the workspaces of other agents lie in it)"],
  });
});

it("gVisor gets no descriptor but the standard ones, the report and the command", async () => {
  const outcome = await run(`echo ready >&3; cat <&4 >/dev/null
for each in /proc/$$/fd/*; do readlink $each >/dev/null && echo $each; done`);
  const descriptors = outcome?.output.match(/\d+$/gm);
  // 255: the shell that stands in keeps its program there.
  expect(descriptors?.filter((descriptor) => descriptor !== "255")).toEqual(["0", "1", "2", "3", "4"]);
});

it("what commands write in memory is bounded, and nothing is written over what is hidden", () => {
  const mounts = { areas: [], files: [], directories: ["/srv/repo/.ssh"], withheld: [] };
  const { mounts: made } = ociConfig("/host/workspace", mounts, "/bundle", 65_534);
  const optionsOf = (path: string) => made.find(({ destination }) => destination === path)?.options;
  expect(optionsOf("/tmp")).toContain(`size=${256 * 1024 ** 2}`);
  expect(optionsOf("/dev/shm")).toContain(`size=${64 * 1024 ** 2}`);
  expect(optionsOf("/srv/repo/.ssh")).toContain("ro");
});

it("its files are those of a system, also for the user nobody of a worker that keeps new files to itself", async () => {
  const usual = process.umask(0o077);
  closeAtEnd(() => void process.umask(usual));
  const outcome = await run(`cd rootfs; stat -c '%a %n' . etc workspace etc/passwd ../empty ../config.json
for each in bin lib sbin; do readlink $each; done; cut -d: -f1 etc/passwd`);
  const links = ["bin", "lib", "sbin"].flatMap((name) => {
    const isLink = lstatSync(`/${name}`).isSymbolicLink();
    return isLink ? [readlinkSync(`/${name}`)] : [];
  });
  expect(outcome?.output.trim().split("\n")).toEqual([
    ...["755 .", "755 etc", "755 workspace", "644 etc/passwd", "444 ../empty", "600 ../config.json"],
    ...links,
    "agent",
  ]);
});
