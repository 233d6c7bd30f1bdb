import { expect, test } from "vitest";
import { createLine, linesByKey } from "../../../src/shared/event-loop.ts";
import { latch } from "../../helpers/latch.ts";

test("each key has a line of its own, which is kept as long as it has work, also work that fails", async () => {
  let created = 0;
  const lineOf = linesByKey(() => {
    created += 1;
    return createLine(1);
  });
  const end = latch();
  const first = lineOf("a")(() => end.opened);
  const second = lineOf("a")(async () => "second");
  expect(await lineOf("b")(async () => "other")).toBe("other");
  expect(created).toBe(2);
  end.open();
  await first;
  expect(await second).toBe("second");
  await expect(lineOf("a")(() => Promise.reject(new RangeError("no work")))).rejects.toThrow("no work");
  expect(created).toBe(3);
  await lineOf("a")(async () => {});
  expect(created).toBe(4);
});
