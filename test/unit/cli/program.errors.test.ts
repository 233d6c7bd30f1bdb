/** How an error of a verb is told. */
import { expect, test } from "vitest";
import { eachHostName } from "../../../src/cli/command.ts";
import { runHere, startHere } from "../../helpers/program.ts";
import { CLEAN } from "../../helpers/program-on-stage.ts";

const place = (env: Record<string, string> = {}) => ({ cwd: "/", env: { ...CLEAN, ...env } });

test("the stack of an error is shown where the log level asks for it", async () => {
  for (const [level, hasStack] of [
    ["trace", true],
    ["debug", true],
    ["info", false],
  ] as const) {
    const { code, stderr } = await runHere(["list"], place({ SUBAGENT_LOG_LEVEL: level }));
    expect([code, /\n +at /.test(stderr.join("\n"))], level).toEqual([3, hasStack]);
  }
});

test("a signal does not hide why a verb failed", async () => {
  const { code, stderr } = await startHere(["list"], place()).kill("SIGINT");
  expect([code, stderr]).toEqual([3, [expect.stringContaining("REDIS_URL")]]);
});

test("a flag for host names may be given more than once", () => {
  expect(eachHostName("b.internal", eachHostName("a.internal"))).toEqual(["a.internal", "b.internal"]);
});
