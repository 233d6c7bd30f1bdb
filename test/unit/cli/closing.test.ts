import { expect, test } from "vitest";
import { createClosing } from "../../../src/cli/closing.ts";

test("closers run newest first, one after the other, and only once", async () => {
  const seen: string[] = [];
  const closing = createClosing();
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
  const closing = createClosing();
  closing.add(() => void seen.push("first"));
  closing.add(() => Promise.reject(new Error("inner")));
  closing.add(() => Promise.reject(new Error("outer")));
  await expect(closing.close()).rejects.toThrow("outer");
  expect(seen).toEqual(["first"]);
});
