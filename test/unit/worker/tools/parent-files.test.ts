/** Guarantee: files that a parent names come whole, from opened directories only, and into the workspace only. */
import {
  linkSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { REFERENCE_MAX_BYTES } from "../../../../src/shared/protocol/message.ts";
import { writeParentFiles } from "../../../../src/worker/tools/parent-files.ts";
import { openScene } from "./scene.ts";

const scene = await openScene();
const { home, readOnly, writable, workspace } = scene;
const { signal } = new AbortController();

const refer = (path: string, from: string) => writeParentFiles(workspace, [{ path, from }], signal);

/** A file of an opened directory. */
function source(name: string, bytes = 1): string {
  const path = join(readOnly, name);
  writeFileSync(path, "x");
  truncateSync(path, bytes);
  return path;
}

it("a file of an opened directory comes whole, up to its greatest size, and is refused beyond", async () => {
  expect(await refer("most", source("most", REFERENCE_MAX_BYTES))).toEqual([
    expect.stringContaining('"most"'),
  ]);
  expect(readFileSync(join(home, "most"))).toHaveLength(REFERENCE_MAX_BYTES);
  expect(await refer("more", source("more", REFERENCE_MAX_BYTES + 1))).toEqual([
    expect.stringMatching(/could not be written: .*more than \d+ MB; read it in parts/),
  ]);
  expect(readdirSync(home)).not.toContain("more");
});

it("a file of the workspace is none of an opened directory", async () => {
  await scene.put("own", "text");
  for (const from of ["own", join(home, "own")])
    expect(await refer("copy", from)).toEqual([expect.stringContaining("not in a directory that is open")]);
});

it("a file with a second name is refused: that name may be one of a secret", async () => {
  writeFileSync(join(readOnly, ".env"), "KEY=value");
  linkSync(join(readOnly, ".env"), join(readOnly, "innocent"));
  expect(await refer("copy", join(readOnly, "innocent"))).toEqual([
    expect.stringContaining("second hard link"),
  ]);
});

it("a link that the agent left leads no file into an opened directory", async () => {
  symlinkSync(writable, join(home, "away"));
  const files = [{ path: "away/file", content: "text" }];
  expect(await writeParentFiles(workspace, files, signal)).toEqual([
    expect.stringContaining("could not be written"),
  ]);
  expect(readdirSync(writable)).toEqual([]);
});

it.runIf(process.platform === "linux")("nothing of them stays open, written or refused", async () => {
  await refer("fine", source("fine"));
  await refer("big", source("big", REFERENCE_MAX_BYTES + 1));
  const open = readdirSync("/proc/self/fd").flatMap((descriptor) => {
    try {
      return [readlinkSync(`/proc/self/fd/${descriptor}`)];
    } catch {
      return [];
    }
  });
  expect(open.filter((path) => path.startsWith(scene.base))).toEqual([]);
});
