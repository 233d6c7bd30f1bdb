import { expect, test } from "vitest";
import { diagnose } from "../../../../src/cli/doctor/checks.ts";
import { facts, NO_WORKSPACES, snapshot } from "./samples.ts";

test("a healthy installation has five areas in order, each with a line of figures", () => {
  const agents = [
    snapshot(),
    snapshot({ record: { status: "idle" } }),
    snapshot({ record: { status: "ended" } }),
  ];
  const { areas, findings } = diagnose(facts({ agents, channels: 2 }));
  expect(findings).toEqual([]);
  expect(areas.map(({ area, severity, summary }) => `${area} ${severity} ${summary}`)).toEqual([
    "redis ok redis 7.0.15 · AOF everysec · noeviction · 5 MB in use",
    "workers ok 1 live on 1 host · 0 of 50 slots taken · 0 waiting",
    "agents ok 2 live · 1 idle · 1 queued · 1 ended",
    "replies ok 2 parents with a reply channel · none unacked for over 1 h",
    "workspaces ok 0 in /w",
  ]);
});

test("errors come first, and an area is as bad as the worst that was found in it", () => {
  const suspects = [
    { snapshot: snapshot(), troubles: ["orphaned_keys" as const] },
    { snapshot: snapshot(), troubles: ["leaked_slots" as const] },
  ];
  const { areas, findings } = diagnose(facts({ suspects, reached: ["agents"] }));
  expect(findings.map(({ severity }) => severity)).toEqual(["error", "warn", "warn"]);
  expect(areas.map(({ severity }) => severity)).toEqual(["ok", "ok", "error", "ok", "ok"]);
});

test("a machine without workspaces is no finding: it says that it did not look", () => {
  const { areas, findings } = diagnose(facts({ workspaces: { ...NO_WORKSPACES, isThere: false } }));
  expect(findings).toEqual([]);
  expect(areas.at(-1)?.summary).toBe("not examined: there is no /w here (SUBAGENT_WORKSPACES)");
});

test("where no live worker has bash the line about workers says why", () => {
  const bash = "bash is not offered: /usr/bin/bwrap is not there.";
  const line = (more: Parameters<typeof facts>[0]) =>
    diagnose(facts(more)).areas.find(({ area }) => area === "workers")?.summary;
  expect(line({ bash })).toMatch(/ waiting · bash is not offered: \/usr\/bin\/bwrap is not there$/);
  expect(line({})).toMatch(/ waiting$/);
  const workers = facts().workers.map((each) => ({ ...each, worker: { ...each.worker, tools: ["bash"] } }));
  expect(line({ bash, workers })).toMatch(/ waiting$/);
});
