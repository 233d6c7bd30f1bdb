/** Guarantee: an opened directory that was not scanned to its end is not shown, and a scan is as old as its beginning. */
import { execFileSync } from "node:child_process";
import { lstatSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { coverOf } from "../../../../../src/worker/tools/sandbox/withheld.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { openScene } from "../scene.ts";

const { signal } = new AbortController();
const areaOf = (path: string) => ({ kind: "root" as const, path, shownAs: path, writable: false });

/** An opened directory after a script has run in it. */
async function made(script: string) {
  const { readOnly } = await openScene();
  execFileSync("/bin/bash", ["-c", script], { cwd: readOnly });
  return areaOf(readOnly);
}

it.each([
  ["more entries than are looked at", "touch {1..50001}", "it has more than 50000 entries"],
  ["more secrets than are covered", "touch .env.{1..501}", "too much of it may hold secrets"],
])("an opened directory with %s is not shown", async (_what, script, problem) => {
  expect(await coverOf(await made(script), handClock(), signal)).toEqual({ problem });
});

it("an opened directory is not shown if a part of it cannot be reached", async () => {
  const name = "d".repeat(250);
  const area = await made(`for i in {1..20}; do mkdir ${name} && cd ${name} || exit 1; done`);
  const cover = await coverOf(area, handClock(), signal);
  execFileSync("rm", ["-rf", name], { cwd: area.path });
  expect(cover).toEqual({ problem: "it cannot be read whole" });
});

it("500 secrets are covered", async () => {
  const cover = await coverOf(await made("touch .env.{1..500}"), handClock(), signal);
  expect("entries" in cover && cover.entries.length).toBe(500);
});

it.runIf(process.platform === "linux")("what is mounted below an opened directory is covered", async () => {
  const { dev } = lstatSync("/dev");
  const mounted = readdirSync("/dev", { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && lstatSync(join("/dev", entry.name)).dev !== dev)
    .map(({ name }) => ({ path: join("/dev", name), isDirectory: true }));
  expect(await coverOf(areaOf("/dev"), handClock(), signal)).toEqual({
    entries: expect.arrayContaining(mounted),
  });
});

it("a command that was stopped during a scan hides nothing from the next one", async () => {
  const area = await made("touch plain");
  const clock = handClock();
  expect(await coverOf(area, clock, AbortSignal.abort())).toEqual({ problem: "the command was stopped" });
  expect(await coverOf(area, clock, signal)).toEqual({ entries: [] });
});

it("a scan is as old as its beginning, however long it takes", async () => {
  const area = await made("touch plain");
  const clock = handClock();
  const scanning = coverOf(area, clock, signal);
  clock.advance(9_000);
  expect(await scanning).toEqual({ entries: [] });
  const path = join(area.path, ".env");
  writeFileSync(path, "KEY=value");
  clock.advance(1_000);
  expect(await coverOf(area, clock, signal)).toEqual({ entries: [{ path, isDirectory: false }] });
});
