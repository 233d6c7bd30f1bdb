import { beforeAll, expect, it } from "vitest";
import { createWalkBudget } from "../../../../../src/shared/open-directory.ts";
import { DRAFT_PREFIX } from "../../../../../src/shared/protocol/ids.ts";
import { openDirectory } from "../../../../../src/worker/tools/files/open.ts";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";
import { walkFiles } from "../../../../../src/worker/tools/search/walk.ts";
import { openScene, type Scene } from "../scene.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
  for (const name of ["a", "b", `${DRAFT_PREFIX}of-a-write`, "below/c", "below/d"]) await scene.put(name, "");
});

/** The names that a walk shows, and whether it ended early. */
async function walk(entries: number) {
  const { signal } = new AbortController();
  const matcher = createMatcherProcesses().open(signal);
  const budget = { ...createWalkBudget(), entriesLeft: entries };
  const start = await openDirectory(scene.workspace, ".");
  const names: string[] = [];
  for await (const step of walkFiles(start, { budget, hidden: "", signal, matcher }))
    names.push(...step.names);
  await matcher.close();
  return { names, exhausted: budget.exhausted };
}

it("shows every file but the drafts of writes", async () => {
  expect(await walk(createWalkBudget().entriesLeft)).toEqual({
    names: ["a", "b", "c", "d"],
    exhausted: false,
  });
});

it("ends after so many entries and says so", async () => {
  const { names, exhausted } = await walk(5);
  expect(exhausted).toBe(true);
  expect(names).toHaveLength(3);
});

it("has a bound", () => {
  expect(createWalkBudget()).toEqual({ entriesLeft: 50_000, exhausted: false });
});
