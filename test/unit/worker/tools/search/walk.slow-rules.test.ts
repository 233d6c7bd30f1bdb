import { expect, it } from "vitest";
import { createWalkBudget } from "../../../../../src/shared/open-directory.ts";
import { openDirectory } from "../../../../../src/worker/tools/files/open.ts";
import { createMatcherProcesses } from "../../../../../src/worker/tools/search/matcher.ts";
import { walkFiles } from "../../../../../src/worker/tools/search/walk.ts";
import { openScene } from "../scene.ts";

it("rules that time out are tried once, not in each directory, and then ignore nothing", async () => {
  const scene = await openScene();
  // Slow below many directories only.
  await scene.put(".gitignore", `${"**/a/".repeat(28)}b\n`);
  for (const name of ["1", "2", "3"]) await scene.put(`${"a/".repeat(38)}${name}/f`, "");
  const { signal } = new AbortController();
  const matcher = createMatcherProcesses().open(signal);
  const refused: string[] = [];
  const counting = {
    ...matcher,
    ignored: (...asked: Parameters<typeof matcher.ignored>) =>
      matcher.ignored(...asked).catch((error: Error) => {
        refused.push(error.message);
        throw error;
      }),
  };
  const start = await openDirectory(scene.workspace, ".");
  const found: string[] = [];
  const options = { budget: createWalkBudget(), hidden: "", signal, matcher: counting };
  for await (const step of walkFiles(start, options)) found.push(...step.names);
  await matcher.close();
  expect(refused).toHaveLength(1);
  expect(found.filter((name) => name === "f")).toHaveLength(3);
});
