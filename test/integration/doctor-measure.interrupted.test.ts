/** Guarantee: Ctrl-C while `doctor --measure` calls the model ends it as interrupted, with its report. */
import { expect, test } from "vitest";
import { EXIT } from "../../src/cli/command.ts";
import { startHere } from "../helpers/program.ts";
import { placeOn } from "../helpers/program-on-stage.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

test("Ctrl-C while it measures ends the doctor as interrupted, and its report is printed", async () => {
  const stage = await openStage({ latencyMs: 600_000 });
  const { env, ...place } = placeOn(stage);
  const provider = { ANTHROPIC_BASE_URL: stage.offline.url, SUBAGENT_BASH: "off" };
  const doctor = startHere(["doctor", "--measure"], { ...place, env: { ...env, ...provider } });
  await until(() => stage.offline.inFlight > 0);
  const { code, stdout } = await doctor.kill("SIGINT");
  expect(code).toBe(EXIT.interrupted);
  expect(stdout.join("\n")).toContain("it was interrupted");
});
