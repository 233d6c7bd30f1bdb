/** Guarantee: what a command sees, and where the next one may begin, is told by whole names. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isInside, mountsOf } from "../../../../../src/worker/tools/sandbox/mount.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { openScene } from "../scene.ts";

const root = (path: string, shownAs = path) => ({ kind: "root" as const, path, shownAs, writable: false });

test("a command begins in the workspace, in an opened directory or below, and in no path with a control character", () => {
  const may = (path: string) => isInside(path, [root("/host/repo", "/srv/repo")]);
  expect(["/workspace", "/workspace/a", "/srv/repo", "/srv/repo/a b/ü"].filter((path) => !may(path))).toEqual(
    [],
  );
  const elsewhere = ["", "/", "/srv", "/workspace-2", "/srv/repository", "/host/repo"];
  expect([...elsewhere, "/workspace/a\nb", "/srv/repo/\u001b[2J"].filter(may)).toEqual([]);
});

test("a secret of a directory is hidden in it, and not beside one whose name its name begins with", async () => {
  const { base, workspace } = await openScene();
  const [one, other] = [join(base, "one"), join(base, "one-2")];
  for (const path of [one, other]) mkdirSync(path);
  writeFileSync(join(other, ".env"), "KEY=1");
  const roots = [root(one, "/srv/one"), root(other, "/srv/other")];
  const mounts = await mountsOf({ ...workspace, roots }, handClock(), new AbortController().signal);
  expect(mounts).toMatchObject({ areas: roots, files: ["/srv/other/.env"], directories: [] });
});
