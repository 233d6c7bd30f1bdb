/** Guarantee: `show` prints an agent with however many lines its messages have. */
import { expect, test } from "vitest";
import { programOn } from "../helpers/program-on-stage.ts";
import { openStage } from "../stage/stage.ts";

test("a prompt of 130,000 lines, more than a call takes arguments", async () => {
  const stage = await openStage();
  const agent = await stage.task("a\n".repeat(130_000));
  const { code, stdout } = await programOn(stage)("show", agent.agentId);
  expect(code).toBe(0);
  expect(stdout.filter((line) => line === "  a")).toHaveLength(130_000);
});
