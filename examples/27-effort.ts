/** Effort and task budget (tokens that the model is told it has): a profile sets the maximum, a spawn may take less. */
import { createParent } from "subagent-queue";
import { setUp } from "./setup.ts";

const { client, parentId, stop } = await setUp();

const parent = createParent({
  client,
  parentId,
  model: "claude-opus-5-5",
  effort: "high",
  task_budget: 60_000,
});
const show = async (name: string, wish: Parameters<typeof parent.spawn>[0]) => {
  const { in_force } = await parent.spawn(wish);
  console.log(`${name}: effort ${in_force?.effort}, task budget ${in_force?.task_budget}`);
};

await show("what the profile has", { name: "thorough" });
await show("less of both", { name: "quick", effort: "low", task_budget: 20_000 });
try {
  await parent.spawn({ name: "eager", effort: "max" });
} catch (error) {
  console.log(`refused: ${error instanceof Error ? error.message : error}`);
}

await parent.stop();
await stop();
