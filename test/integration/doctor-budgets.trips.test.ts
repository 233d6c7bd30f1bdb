import { expect, test } from "vitest";
import { doctorFor } from "../helpers/doctor.ts";
import { openStage, SHORT_TIMING } from "../stage/stage.ts";

const AGENTS = 60;

test("the budgets of many agents are read in few trips: a slow line makes no minutes of them", async () => {
  const stage = await openStage({ redis: "own", proxied: true, timing: SHORT_TIMING });
  const doctor = await doctorFor(stage);
  const examined = async () => {
    const before = stage.proxy.passed;
    await doctor.findings();
    return stage.proxy.passed - before;
  };
  await examined();
  const alone = await examined();
  for (let n = 0; n < AGENTS; n++) await stage.spawn({ budgets: { agent: { max_total_tokens: 1_000 } } });
  expect((await examined()) - alone).toBeLessThan(AGENTS / 2);
});
