/** Guarantee: a list of files for which too many files are open says so, and to try again; it is not short, nor a matter of rights. */
import { expect, test } from "vitest";
import { spawnNode } from "../../helpers/processes.ts";

test("a list that finds no file descriptor, at whichever of its steps, is refused for now", async () => {
  const child = await spawnNode("test/helpers/fixtures/list-without-descriptors.ts");
  expect(await child.closed, child.stderr.join("\n")).toEqual({ code: 0, signal: null });
  expect(child.stdout).toEqual(["rate_limited", "rate_limited", "rate_limited", "deep/low.txt top.txt"]);
});
