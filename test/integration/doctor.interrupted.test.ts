/** Guarantee: Ctrl-C ends the doctor at once, however long its examination of a large installation would take. */
import { expect, test } from "vitest";
import { EXIT } from "../../src/cli/command.ts";
import { startHere } from "../helpers/program.ts";
import { placeOn } from "../helpers/program-on-stage.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

test("Ctrl-C while it examines ends the doctor as interrupted, without a report", async () => {
  const stage = await openStage({ redis: "own" });
  await stage.parent("planner").spawn({ name: "explorer" });
  const { env, ...place } = placeOn(stage);
  const inScripts = async () => String(await stage.redis.client("LIST")).split("cmd=eval").length;
  const before = await inScripts();
  // Scripts wait, reads are answered: the examination stands still at its first agent.
  await stage.redis.client("PAUSE", 600_000, "WRITE");
  const doctor = startHere(["doctor"], { ...place, env: { ...env, SUBAGENT_BASH: "off" } });
  await until(async () => (await inScripts()) > before);
  const { code, stdout } = await doctor.kill("SIGINT");
  await stage.redis.client("UNPAUSE");
  expect(code).toBe(EXIT.interrupted);
  expect(stdout.join("")).toBe("");
});
