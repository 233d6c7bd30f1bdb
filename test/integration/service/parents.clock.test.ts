/** Guarantee: what a parent used today is said for Redis' day, by which it is counted, whatever the clock of the API's host says. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const DAY_MS = 86_400_000;

test("an API process a day ahead says what was used today", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const { turns, tokens } = await stage.parent("busy").task({ prompt: "Say hello" });
  const clock = { ...systemClock, now: () => Date.now() + DAY_MS };
  const api = await startApi({ client: stage.client({ clock }) });
  const { body } = await api.ask("GET", "/v1/parents");
  expect(body).toMatchObject({ parents: [{ parent_id: "busy", today: { turns, tokens } }] });
});
