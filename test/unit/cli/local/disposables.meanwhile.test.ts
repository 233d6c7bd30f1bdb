/** Guarantee: who closes resolves when all is closed, whoever began it. */
import { expect, test } from "vitest";
import { createDisposables } from "../../../../src/cli/local/disposables.ts";
import { latch } from "../../../helpers/latch.ts";

test("a close meanwhile has the end of the one under way", async () => {
  const closing = createDisposables();
  const slow = latch();
  const seen: string[] = [];
  closing.add(async () => {
    await slow.opened;
    seen.push("closed");
    throw new Error("in vain");
  });
  const ends = [closing.close(), closing.close()].map((end) => end.catch(() => seen.push("refused")));
  slow.open();
  await Promise.all(ends);
  expect(seen).toEqual(["closed", "refused", "refused"]);
});

test("what is added after a close is closed by the next one", async () => {
  const closing = createDisposables();
  const seen: string[] = [];
  await closing.close();
  closing.add(() => void seen.push("later"));
  await closing.close();
  expect(seen).toEqual(["later"]);
});
