/** Guarantee: which model a task that comes due asks: that of its parent's registered profile before that of the client that made its schedule. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test.each([
  ["that its parent has registered since", { model: "claude-sonnet-5-5" }, "claude-sonnet-5-5"],
  ["of the client that made its schedule, where none is registered", {}, "claude-opus-5-5"],
])("a task that comes due asks the model %s", async (_, profile, model) => {
  const stage = await openStage();
  const parent = stage.parent("planner-7", { client: stage.client({ model: "claude-opus-5-5" }) });
  await parent.schedule({ schedule_id: "one", at: new Date().toISOString(), prompt: "say hello" });
  await parent.register(profile);
  const client = stage.client();
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl: stage.url, prefix: stage.prefix, client, logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const { call, store } = await internalsOf(client).open();
  const live = () => call(({ read }) => read(() => store.liveRecords(parent)));
  await until(async () => (await live()).length === 1);
  expect((await live())[0]?.spec.model).toBe(model);
});
