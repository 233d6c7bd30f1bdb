/** Guarantee: a directory that vanishes while an opened directory is scanned does not withhold the rest, and hides nothing. */
import { mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { coverOf } from "../../../../../src/worker/tools/sandbox/withheld.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { openScene } from "../scene.ts";

const areaOf = (path: string) => ({ kind: "root" as const, path, shownAs: path, writable: false });

/** A signal that calls `look` with the number of the look at it: a scan looks before each directory. It aborts at the fiftieth. */
function lookedAt(look: (n: number) => void): AbortSignal {
  let looks = 0;
  const aborted = () => {
    looks += 1;
    if (looks < 50) look(looks);
    return looks >= 50;
  };
  return Object.defineProperty(new AbortController().signal, "aborted", { get: aborted });
}

it("an opened directory is scanned again when a directory in it has gone before its turn", async () => {
  const { readOnly } = await openScene();
  for (const name of ["gone", "kept"]) mkdirSync(join(readOnly, name));
  writeFileSync(join(readOnly, "kept", ".env"), "");
  const signal = lookedAt((n) => {
    if (n === 2) rmdirSync(join(readOnly, "gone"));
  });
  expect(await coverOf(areaOf(readOnly), handClock(), signal)).toEqual({
    entries: [{ path: join(readOnly, "kept", ".env"), isDirectory: false }],
  });
});

it("an opened directory in which directories vanish during each scan is not shown", async () => {
  const { readOnly } = await openScene();
  const passing = join(readOnly, "passing");
  // Each scan looks before the opened directory and before the one in it.
  const signal = lookedAt((n) => (n % 2 === 1 ? mkdirSync(passing) : rmdirSync(passing)));
  const cover = await coverOf(areaOf(readOnly), handClock(), signal);
  expect(cover).toEqual({ problem: "it cannot be read whole" });
});
