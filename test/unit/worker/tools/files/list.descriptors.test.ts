/** Guarantee: a walk of what an agent filled keeps no directory open, whether it was listed to its end, left early or refused. */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { listDirectory } from "../../../../../src/worker/tools/files/list.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

/** The paths below `base` that this process has open. */
function openBelow(base: string): string[] {
  return readdirSync("/proc/self/fd").flatMap((descriptor) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${descriptor}`);
      return path.startsWith(base) ? [path] : [];
    } catch {
      return []; // closed meanwhile
    }
  });
}

it("no directory stays open after a listing", async () => {
  const base = realpathSync(mkdtempSync(join(tmpdir(), "list-")));
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  const [full, linked] = [join(base, "full"), join(base, "linked")];
  for (const name of ["a", "b"]) mkdirSync(join(full, name), { recursive: true });
  symlinkSync(base, linked);
  for await (const { path } of listDirectory(Buffer.from(full))) expect(path.length).toBeGreaterThan(0);
  for await (const { path } of listDirectory(Buffer.from(full))) {
    expect(path.length).toBeGreaterThan(0);
    break;
  }
  // Its way leads elsewhere: nothing is listed.
  for await (const { path } of listDirectory(Buffer.from(join(linked, "full")))) expect(path).toBeUndefined();
  expect(openBelow(base)).toEqual([]);
});
