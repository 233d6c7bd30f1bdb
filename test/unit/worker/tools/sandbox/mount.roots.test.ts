/** Guarantee: a command sees each opened directory, also one inside another, without the workspaces of other agents. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { mountsOf } from "../../../../../src/worker/tools/sandbox/mount.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { openScene } from "../scene.ts";

const { signal } = new AbortController();
const { workspace, readOnly: repo, outside } = await openScene();
const root = (path: string, shownAs = path) => ({ kind: "root" as const, path, shownAs, writable: false });
const mounts = (roots: ReturnType<typeof root>[], hidden = workspace.hidden) =>
  mountsOf({ ...workspace, roots, hidden }, handClock(), signal);

it("an opened directory inside another one is mounted after it, whatever the order of the list", async () => {
  const [outer, inner] = [root(repo), root(outside, join(repo, "linked"))];
  expect((await mounts([inner, outer])).areas).toEqual([outer, inner]);
  expect((await mounts([outer, inner])).areas).toEqual([outer, inner]);
});

it("an opened directory that another one would hide is shown, without its own secrets", async () => {
  const keys = join(repo, ".aws");
  mkdirSync(join(keys, "below"), { recursive: true });
  writeFileSync(join(keys, ".env"), "");
  symlinkSync("below", join(keys, ".netrc"));
  const [outer, inner] = [root(repo), root(keys)];
  expect(await mounts([outer])).toMatchObject({ directories: [keys], files: [] });
  expect(await mounts([outer, inner])).toMatchObject({
    areas: [outer, inner],
    directories: [join(keys, "below")],
    files: [join(keys, ".env")],
  });
});

it("an opened directory in a hidden one is not shown, and is named", async () => {
  const below = join(repo, ".kube/project");
  mkdirSync(below, { recursive: true });
  writeFileSync(join(below, ".env"), "");
  const [outer, inner] = [root(repo), root(below)];
  const made = await mounts([outer, inner]);
  expect(made).toMatchObject({ areas: [outer], withheld: [`${below} (a hidden directory holds it)`] });
  expect(made.files.filter((path) => path.startsWith(below))).toEqual([]);
});

it("an opened directory around the workspaces is shown if a covered directory holds them", async () => {
  const covered = await mounts([root(repo)], join(repo, ".subagent-queue/workspaces"));
  expect(covered).toMatchObject({ areas: [root(repo)], withheld: [] });
  const open = await mounts([root(repo)], join(repo, "state/workspaces"));
  expect(open.areas).toEqual([]);
  const below = await mounts([root(join(workspace.hidden, "default"))]);
  expect(below).toMatchObject({
    areas: [],
    withheld: [expect.stringContaining("workspaces of other agents")],
  });
});
