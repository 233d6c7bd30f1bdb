/** Guarantee: the call that a claim announces is over when its holder asks the parent: no later claim charges it. */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import { answerEntry } from "../../../src/shared/protocol/log.ts";
import { questionsOf, verbRig } from "./rig.ts";

test("a worker that claims a run and only asks its parent leaves no model call behind that was begun", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  expect((await rig.raw(agent)).begun).not.toBe("");
  expect((await rig.store.ask(agent, questionsOf(epoch, ["a"]))).status).toBe("asked");
  const answered = { authority: "parent", question_id: "1/a", entry: answerEntry("blue") } as const;
  expect((await rig.store.answer(agent, answered)).status).toBe("queued");
  const next = await rig.store.claim(agent, { claim_id: newRequestKey(), worker: "w" });
  expect(next).toMatchObject({ status: "claimed", lost_call: undefined });
});
