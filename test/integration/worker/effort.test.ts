/** Guarantee: the effort and the task budget in force reach the provider in its own words, with every call; a spawn only narrows them. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal } from "../../helpers/parents.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { openStage } from "../../stage/stage.ts";

/** A stage whose definition `careful` has these lines in its front matter; its worker keeps what it sends. */
async function stageWith(lines: string) {
  const stage = await openStage();
  const { model, heads } = recordingModel(stage.offline.url);
  await stage.startWorker({ model });
  const agents = await mkdtemp(join(tmpdir(), "effort-"));
  closeAtEnd(() => rm(agents, { recursive: true, force: true }));
  await writeFile(join(agents, "careful.md"), `---\ndescription: Careful.\n${lines}\n---\nBe careful.\n`);
  const client = stage.client({ agents: [agents], model: "offline-1" });
  return { stage, heads, parent: (options = {}) => stage.parent("planner-7", { client, ...options }) };
}

const BETA = "task-budgets-2026-03-13";

test.each([
  [
    "effort: medium\ntaskBudget: 40000",
    { effort: "medium", task_budget: { type: "tokens", total: 40_000 } },
    BETA,
  ],
  ["task_budget: 40000", { task_budget: { type: "tokens", total: 40_000 } }, BETA],
  ["effort: low", { effort: "low" }, undefined],
  ["model: inherit", undefined, undefined],
])(
  "what a definition says (%j) stands in the bytes of each call, in the provider's words",
  async (lines, config, beta) => {
    const { heads, parent } = await stageWith(lines);
    const reply = await parent().task({ agent: "careful", prompt: "Which files are there?" });
    expect(reply.status).toBe("succeeded");
    expect(heads.length).toBeGreaterThan(1);
    expect(heads.map(({ outputConfig }) => outputConfig)).toEqual(heads.map(() => config));
    expect(heads.map((head) => head.beta)).toEqual(heads.map(() => beta));
  },
);

test("the output's schema stands beside them", async () => {
  const { heads, parent } = await stageWith("effort: high");
  const output_schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
  await parent().task({ agent: "careful", prompt: "Which files are there?", output_schema });
  expect(heads.at(-1)?.outputConfig).toEqual({
    effort: "high",
    format: { type: "json_schema", schema: expect.objectContaining({ type: "object" }) },
  });
});

test("a definition gets at most what the profile has, a spawn is refused more, and the receipt says what is in force", async () => {
  const { parent } = await stageWith("effort: max\ntask_budget: 90000");
  const narrow = parent({ effort: "high", task_budget: 50_000 });
  const inForce = async (wish: object) => (await narrow.spawn({ name: "a", ...wish })).in_force;
  expect(await inForce({})).toEqual({ effort: "high", task_budget: 50_000 });
  expect(await inForce({ agent: "careful" })).toMatchObject({ effort: "high", task_budget: 50_000 });
  expect(await inForce({ agent: "careful", effort: "low", task_budget: 20_000 })).toMatchObject({
    effort: "low",
    task_budget: 20_000,
  });
  for (const wish of [{ effort: "max" as const }, { task_budget: 50_001 }])
    await expect(narrow.spawn({ name: "a", ...wish })).rejects.toMatchObject(
      refusal("invalid_input", /more than is allowed/),
    );
  for (const wish of [{ task_budget: 19_999 }, { effort: "much" as never }])
    await expect(narrow.spawn({ name: "a", ...wish })).rejects.toMatchObject(
      refusal("invalid_input", /must be/),
    );
});

test("what a model does not take is refused of a spawn that names it, and left out where it is inherited", async () => {
  const { parent } = await stageWith("effort: high\nmodel: claude-haiku-4-5");
  expect((await parent().spawn({ name: "a", agent: "careful" })).in_force).toEqual({ definition: "careful" });
  await expect(parent().spawn({ name: "a", agent: "careful", effort: "low" })).rejects.toMatchObject(
    refusal("invalid_input", /claude-haiku-4-5 does not take effort low/),
  );
  const opus = { name: "b", model: "claude-opus-4-6" };
  await expect(parent().spawn({ ...opus, effort: "xhigh" })).rejects.toMatchObject(
    refusal("invalid_input", /xhigh/),
  );
  expect((await parent({ effort: "xhigh" }).spawn(opus)).in_force).toEqual({ effort: "high" });
});

test("a registered profile's are in force too, also for a model that only it names", async () => {
  const { parent } = await stageWith("effort: high");
  await parent().register({ model: "claude-opus-5-5", effort: "high", task_budget: 30_000 });
  const receipt = await parent({ model: undefined }).spawn({ name: "a", effort: "medium" });
  expect(receipt.in_force).toEqual({ profile_version: 1, effort: "medium", task_budget: 30_000 });
});
