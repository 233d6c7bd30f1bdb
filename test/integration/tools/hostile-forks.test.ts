/** Commands that fork without end: nothing of them is left when they are over. Nothing runs beside this file. */
import { expect, test } from "vitest";
import { FORKING } from "./hostile-commands.ts";
import { driveAll, expectNoEscape, isRoot, setTraps, untouched } from "./hostile-scene.ts";

test("what forks without end ends with its command, behind root, an ordinary user, and with a proxy", async () => {
  await setTraps();
  const before = untouched();
  const { root, user, network } = await driveAll("forking");
  for (const report of [...(isRoot ? [root] : []), user, network]) expectNoEscape(await report, FORKING);
  expect(untouched()).toBe(before);
});
