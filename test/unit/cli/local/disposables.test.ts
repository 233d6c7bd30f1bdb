import { expect, test } from "vitest";
import { createDisposables } from "../../../../src/cli/local/disposables.ts";
import { latch } from "../../../helpers/latch.ts";

test("closers run newest first, one after the other, and only once", async () => {
  const seen: string[] = [];
  const closing = createDisposables();
  closing.add(() => void seen.push("first"));
  closing.add(async () => {
    await Promise.resolve();
    seen.push("second");
  });
  await closing.close();
  await closing.close();
  expect(seen).toEqual(["second", "first"]);
});

test("all of them run although some fail, and the first failure is told", async () => {
  const seen: string[] = [];
  const closing = createDisposables();
  closing.add(() => void seen.push("first"));
  closing.add(() => Promise.reject(new Error("inner")));
  closing.add(() => Promise.reject(new Error("outer")));
  await expect(closing.close()).rejects.toThrow("outer");
  expect(seen).toEqual(["first"]);
});

test("closers beside each other run together, after those above them and before those below", async () => {
  const seen: string[] = [];
  const both = [latch(), latch()];
  const closing = createDisposables();
  closing.add(() => void seen.push("below"));
  for (const [n, own] of both.entries()) {
    closing.addBeside(async () => {
      own.open();
      // Each ends only when the other has begun.
      await both[1 - n]?.opened;
      seen.push("beside");
    });
  }
  closing.add(() => void seen.push("above"));
  await closing.close();
  expect(seen).toEqual(["above", "beside", "beside", "below"]);
});
