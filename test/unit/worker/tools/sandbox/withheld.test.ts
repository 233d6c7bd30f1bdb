/** What the secrets of an opened directory are hidden by, from command to command. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { coverOf } from "../../../../../src/worker/tools/sandbox/withheld.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { openScene } from "../scene.ts";

const { signal } = new AbortController();

it("a secret that comes into an opened directory is covered 10 s later at the latest", async () => {
  const { readOnly } = await openScene();
  const area = { kind: "root" as const, path: readOnly, shownAs: readOnly, writable: false };
  const clock = handClock();
  expect(await coverOf(area, clock, signal)).toEqual({ entries: [] });
  const path = join(readOnly, ".env");
  await writeFile(path, "KEY=value");
  clock.advance(10_000);
  expect(await coverOf(area, clock, signal)).toEqual({ entries: [{ path, isDirectory: false }] });
});
