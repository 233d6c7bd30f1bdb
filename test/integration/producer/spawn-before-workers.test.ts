/** Spawns of a parent that starts before the workers do: a tool is unknown only by what the workers say at that moment. */
import { expect, test } from "vitest";
import { createWorkerDirectory } from "../../../src/shared/redis/workers.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { refusal } from "../../helpers/parents.ts";
import { openStage } from "../../stage/stage.ts";

const FRESH_MS = 5_000;
const LACKING_FRESH_MS = 200;
const tools = ["look_up_order"];

test("tools of a worker that comes after the refusal of a spawn are known soon, and unknown again when it has gone", async () => {
  const stage = await openStage();
  const clock = handClock();
  const parent = stage.parent("planner-7", { client: stage.client({ clock }) });
  expect(await parent.spawn({ name: "early", tools })).toMatchObject({ unknown_tools: tools });
  const directory = createWorkerDirectory(stage.redis, stage.keys);
  const announce = async (id: string, offers: string[]) => {
    await directory.announce({ id, tools: offers, host: "h", version: "0.1.0", concurrency: 50 });
    closeAtEnd(() => directory.withdraw(id));
  };
  await announce("w1", ["crm_lookup"]);
  clock.advance(LACKING_FRESH_MS + 1);
  await expect(parent.spawn({ name: "refused", tools })).rejects.toMatchObject(
    refusal("invalid_input", /no worker has/),
  );
  await announce("w2", tools);
  // However many spawns name it, a missing tool is looked for five times a second.
  await expect(parent.spawn({ name: "refused", tools })).rejects.toMatchObject(
    refusal("invalid_input", /no worker has/),
  );
  clock.advance(LACKING_FRESH_MS + 1);
  expect(await parent.spawn({ name: "late", tools })).toMatchObject({ unknown_tools: [] });
  await directory.withdraw("w2");
  clock.advance(FRESH_MS + 1);
  await expect(parent.spawn({ name: "last", tools })).rejects.toMatchObject(
    refusal("invalid_input", /no worker has/),
  );
});
