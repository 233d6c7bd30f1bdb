import { expect, test, vi } from "vitest";
import { whenOpened } from "../../../src/producer/push-iterator.ts";

test("a failed opening that nobody reads ends no process", async () => {
  const unhandled = vi.fn();
  process.on("unhandledRejection", unhandled);
  whenOpened<number>(Promise.reject(new TypeError("refused")));
  await new Promise(setImmediate);
  process.off("unhandledRejection", unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});
