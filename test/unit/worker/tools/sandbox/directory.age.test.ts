/** Guarantee: what a worker removes when it starts is its own user's, and older than any command can be. */
import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { removeLeftBehind } from "../../../../../src/worker/tools/sandbox/directory.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

function baseWith(name: string, ageS: number, owner?: number): string {
  const base = mkdtempSync(join(tmpdir(), "left-"));
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  const path = join(base, name);
  mkdirSync(path);
  if (owner !== undefined) chownSync(path, owner, owner);
  const when = Date.now() / 1_000 - ageS;
  utimesSync(path, when, when);
  return base;
}

it("the directory of a command that has run for twenty minutes stays", async () => {
  const base = baseWith("subagent-runsc-abcDEF", 1_200);
  await removeLeftBehind(systemClock, base);
  expect(readdirSync(base)).toEqual(["subagent-runsc-abcDEF"]);
});

it.runIf(process.getuid?.() === 0)("a directory of another user stays, however old it is", async () => {
  const base = baseWith("subagent-net-abcDEF", 100_000, 1_234);
  await removeLeftBehind(systemClock, base);
  expect(readdirSync(base)).toEqual(["subagent-net-abcDEF"]);
});
