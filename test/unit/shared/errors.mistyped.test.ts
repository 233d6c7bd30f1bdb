import { expect, test } from "vitest";
import { isWrongType, unlessMistyped } from "../../../src/shared/errors.ts";

test("a read of a key of another type brings what it was told to; any other error is thrown", async () => {
  const wrong = new Error("WRONGTYPE Operation against a key holding the wrong kind of value");
  expect(isWrongType(wrong)).toBe(true);
  expect(await unlessMistyped(Promise.reject(wrong), 0)).toBe(0);
  expect(await unlessMistyped(Promise.resolve(7), 0)).toBe(7);
  await expect(unlessMistyped(Promise.reject(new Error("Connection is closed.")), 0)).rejects.toThrow(
    "closed",
  );
});
