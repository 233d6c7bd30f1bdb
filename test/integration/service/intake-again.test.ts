/** A request of the intake that is handed over once more, as after the death of a process, begins and says nothing twice. */
import { expect, test } from "vitest";
import { inputOfEntry } from "../../../src/service/intake/input.ts";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createIntakeQuota } from "../../../src/service/intake/quota.ts";
import { handOver } from "../../../src/service/intake/spawn.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { agentOf } from "../../../src/shared/protocol/keys.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage, type Stage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "shell" };
const logger = createLogger({ level: "silent" });

/** Returns a call that hands an entry over as each process does that reads it. */
function processOf(stage: Stage) {
  return (id: string, fields: Record<string, string>) => {
    const client = stage.client();
    const quota = createIntakeQuota(client, systemClock, logger);
    return handOver(client, inputOfEntry(Object.entries(fields).flat()), id, quota);
  };
}

async function textsOf(stage: Stage, agentId: string): Promise<string[]> {
  const uid = (await stage.store.uidOf(PARENT, agentId)) ?? "";
  return (await stage.store.inbox(agentOf(PARENT, uid))).map(({ text }) => text);
}

test("an agent that is kept alive, and a message to one, have each message once", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const hand = processOf(stage);
  const begins = { parent_id: "shell", name: "Reviewer", keep_alive: "1", prompt: "first" };
  const says = { parent_id: "shell", agent_id: "reviewer", prompt: "second" };
  for (const entry of ["1-1", "1-1"]) await hand(entry, begins);
  for (const entry of ["1-2", "1-2"]) await hand(entry, says);
  expect((await stage.parent("shell").list()).map(({ agent_id }) => agent_id)).toEqual(["reviewer"]);
  expect(await textsOf(stage, "reviewer")).toEqual(["first", "second"]);
});

test("an entry that waited for room as a job begins one agent, also if its process died before it was done", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const parent = stage.parent("shell");
  const made: string[] = [];
  for (let n = 0; n < 10; n++) made.push((await parent.spawn({ name: "Idle" })).agent_id);
  const intake = createIntake({
    ...{ redisUrl: stage.url, prefix: stage.prefix, client: stage.client(), logger },
  });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const fields = { parent_id: "shell", name: "Late", prompt: "go" };
  const id = (await stage.redis.xadd(stage.keys.intake, "*", ...Object.entries(fields).flat())) ?? "";
  await until(async () => (await stage.redis.xlen(stage.keys.intake)) === 0);
  for (const agentId of made) await parent.destroy(agentId);
  const live = async () => (await parent.list()).map(({ agent_id }) => agent_id);
  await until(async () => (await live()).length > 0);
  await processOf(stage)(id, fields);
  expect(await live()).toEqual(["late"]);
});
