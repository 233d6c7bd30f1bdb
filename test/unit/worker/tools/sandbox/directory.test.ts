import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { chooseRunner } from "../../../../../src/worker/tools/sandbox/choose.ts";
import { makeDirectory, removeLeftBehind } from "../../../../../src/worker/tools/sandbox/directory.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

const LONG_AGO = Date.now() / 1_000 - 7_200;

it("removes what workers that are gone left behind, and nothing else", async () => {
  const base = mkdtempSync(join(tmpdir(), "left-"));
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  const make = (name: string, when = LONG_AGO) => {
    mkdirSync(join(base, name, "net"), { recursive: true });
    writeFileSync(join(base, name, "net", "proxy"), "");
    utimesSync(join(base, name), when, when);
  };
  for (const name of ["subagent-net-abcDEF", "subagent-runsc-123456", "subagent-bash-aaaaaa"]) make(name);
  const others = ["subagent-net-abcdefg", "subagent-queue-abcdef", "other-net-abcDEF", "subagent-net-ab"];
  for (const name of others) make(name);
  make("subagent-net-inuse0", Date.now() / 1_000);
  symlinkSync(join(base, "other-net-abcDEF"), join(base, "subagent-net-linked"));
  await removeLeftBehind(systemClock, base);
  expect(readdirSync(base).sort()).toEqual([...others, "subagent-net-inuse0", "subagent-net-linked"].sort());
  expect(readdirSync(join(base, "other-net-abcDEF"))).toEqual(["net"]);
  await removeLeftBehind(systemClock, join(base, "none"));
});

it("is what a worker does that starts", async () => {
  const left = await makeDirectory("net");
  closeAtEnd(() => rmSync(left, { recursive: true, force: true }));
  utimesSync(left, LONG_AGO, LONG_AGO);
  await chooseRunner({
    ...{ clock: systemClock, mode: "sandboxed", production: false, acceptUnsandboxed: false },
    ...{ bwrap: "/none/bwrap", runsc: "/none/runsc" },
  });
  expect(() => readdirSync(left)).toThrow(/ENOENT/);
});
