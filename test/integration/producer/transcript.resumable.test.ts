/** Guarantee: what could be spawned can be resumed, unless its parent has left it no tool of those it had. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Parent, ParentOptions } from "../../../src/producer/parent.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal } from "../../helpers/parents.ts";
import { openStage } from "../../stage/stage.ts";

const ADDRESS = { tenant: "default", parentId: "planner-7" };
type SpawnInput = Parameters<Parent["spawn"]>[0];

/** A parent with a definition of long instructions, and the way to an agent of it that has ended with a conversation. */
async function scene() {
  const stage = await openStage();
  const folder = await mkdtemp(join(tmpdir(), "definitions-"));
  closeAtEnd(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "long.md"), `---\ndescription: Long.\n---\n${"word ".repeat(60_000)}`);
  const client = stage.client({ agents: [folder] });
  const parent = (options: Partial<ParentOptions> = {}) => stage.parent("planner-7", { client, ...options });
  const ended = async (by: Parent, input: SpawnInput) => {
    const { agent_id } = await by.spawn(input);
    const uid = (await stage.store.uidOf(ADDRESS, agent_id)) ?? "";
    await stage.redis.hset(stage.keys.agent({ ...ADDRESS, uid }).log, "0", "{}");
    await by.destroy(agent_id);
    return agent_id;
  };
  return { parent, ended };
}

test("instructions and lists that are longer than those of a call do not keep an agent from being resumed", async () => {
  const names = (of: string) => Array.from({ length: 200 }, (_, at) => `${of}-${at}`);
  const { parent, ended } = await scene();
  const planner = parent({ disallowed_tools: names("a") });
  const agentId = await ended(planner, { name: "A", agent: "long", disallowed_tools: names("b") });
  const { in_force } = await planner.resume(agentId, "go on");
  expect(in_force.disallowed_tools).toEqual([...names("a"), ...names("b")]);
});

test("an agent of whose tools its parent allows none any more is not resumed, one that never had any is", async () => {
  const { parent, ended } = await scene();
  const finder = await ended(parent(), { name: "A", tools: ["grep"] });
  const reader = await ended(parent(), { name: "A", tools: [], skills: ["notes"] });
  const talker = await ended(parent(), { name: "A", tools: [] });
  const refused = refusal("invalid_input", /^resume refused, nothing was done: .*grep/);
  await expect(parent({ tools: ["glob"] }).resume(finder, "go on")).rejects.toMatchObject(refused);
  await expect(parent({ disallowed_tools: ["grep"] }).resume(finder, "go on")).rejects.toMatchObject(refused);
  const without = [{ skills: [] }, { disallowed_tools: ["skill"] }];
  for (const options of without)
    await expect(parent(options).resume(reader, "go on")).rejects.toMatchObject(
      refusal("invalid_input", /^resume refused, nothing was done: .* "a_2" had .the skill notes.:/),
    );
  expect(await parent({ tools: ["glob"] }).resume(talker, "go on")).toMatchObject({
    in_force: { tools: [] },
  });
});
