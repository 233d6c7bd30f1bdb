import { once } from "node:events";
import { expect, test } from "vitest";
import { guardedLogger, type Logger } from "../../../src/shared/logger.ts";

const refuse = (): never => {
  throw new TypeError("full");
};
const failing: Logger = { debug: refuse, info: refuse, warn: refuse, error: refuse, child: () => failing };

test("a child that fails is guarded as its logger is, and the first failure of all is told", async () => {
  const warned = once(process, "warning");
  const child = guardedLogger({ ...failing, info: () => {} }).child({ uid: "sa-1" });
  child.info("a line");
  child.child({ run: 1 }).error("another");
  expect((await warned)[0]).toMatchObject({ message: "The logger fails: full", code: "SUBAGENT_LOGGER" });
});
