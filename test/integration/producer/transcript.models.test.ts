/** Guarantee: what a resumed agent inherits is fitted to its model, as a spawn's is, and it asks no model that the old agent did not. */
import { expect, test } from "vitest";
import type { Parent } from "../../../src/producer/parent.ts";
import { openStage } from "../../stage/stage.ts";

async function openWithWorker() {
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "found it" }] }] } });
  await stage.startWorker();
  return stage;
}

/** The id of an agent that has said something and was destroyed. */
async function ended(parent: Parent, more: { model?: string; fallback_models?: string[] }): Promise<string> {
  const { agent_id } = await parent.spawn({ name: "worker", keep_alive: true, ...more });
  await parent.send(agent_id, "start");
  await parent.waitAny([agent_id]);
  await parent.destroy(agent_id);
  return agent_id;
}

test("an effort of the parent that its model does not take, or not whole, keeps no agent from being resumed", async () => {
  const stage = await openWithWorker();
  const now = stage.parent("planner-7", { effort: "xhigh" });
  const effortOf = async (model: string) => {
    const agentId = await ended(stage.parent("planner-7", { effort: "max" }), { model });
    return (await now.resume(agentId, "go on")).in_force.effort;
  };
  expect(await effortOf("claude-haiku-4-5")).toBeUndefined();
  expect(await effortOf("claude-opus-4-6")).toBe("high");
});

test("an agent without fallback models is resumed without those of its parent", async () => {
  const stage = await openWithWorker();
  const parent = stage.parent("planner-7", { fallback_models: ["offline-2"] });
  const agentId = await ended(parent, { fallback_models: [] });
  expect((await parent.resume(agentId, "go on")).in_force.fallback_models).toBeUndefined();
});
