/** Guarantee: a verb that shows the agents of several parents says whose each is, and of which parents a sum is. */
import { expect, test } from "vitest";
import { newUid } from "../../src/shared/protocol/ids.ts";
import type { Reply } from "../../src/shared/protocol/reply.ts";
import { programOn } from "../helpers/program-on-stage.ts";
import { openStage } from "../stage/stage.ts";

/** The configured parent "parent-0" and one of a `run` have an agent of the same id; a third parent has one of its own. */
async function scene() {
  const stage = await openStage();
  for (const parentId of ["parent-0", "parent-0-run", "planner-7"]) {
    const parent = stage.parent(parentId);
    await parent.spawn({ name: "w" });
    await parent.send("w", "hello");
  }
  const program = programOn(stage);
  return {
    stage,
    program,
    text: async (...args: string[]) => (await program(...args)).stdout.join("\n"),
    json: async (...args: string[]) =>
      (await program(...args, "--json")).stdout.map((line) => JSON.parse(line)),
  };
}

test("list names the parent of each agent, in a column where there are several", async () => {
  const { json, text } = await scene();
  const [{ sub_agents }] = await json("list");
  expect(sub_agents).toMatchObject([
    { parent_id: "parent-0", agent_id: "w" },
    { parent_id: "parent-0-run", agent_id: "w" },
  ]);
  expect(await text("list")).toMatch(/^parent +agent id .*\nparent-0 +w .*\nparent-0-run +w .*$/);
  expect(await text("list", "--parent", "parent-0-run")).toMatch(/^agent id .*\nw .*$/);
});

test("usage says how many other parents are in the sum", async () => {
  const { json, stage } = await scene();
  await stage.startWorker();
  for (const parentId of ["parent-0", "parent-0-run"]) {
    for await (const { kind } of stage.parent(parentId).replies()) if (kind === "reply") break;
  }
  expect(await json("usage")).toMatchObject([{ parent_id: "parent-0", other_parents: 1, replies: 2 }]);
  const alone = await json("usage", "--parent", "parent-0");
  expect(alone).toMatchObject([{ parent_id: "parent-0", other_parents: 0, replies: 1 }]);
});

test("usage adds up what all these parents have used and paid", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const replies: Reply[] = [];
  for (const parentId of ["parent-0", "parent-0-run"])
    replies.push(await stage.parent(parentId).task({ prompt: "work", model: "claude-haiku-4-5" }));
  const sum = (field: "turns" | "tokens" | "cost_usd") =>
    replies.reduce((all, reply) => all + reply[field], 0);
  const { stdout } = await programOn(stage)("usage", "--json");
  const used = JSON.parse(stdout.join(""));
  expect(used).toMatchObject({ replies: 2, turns: sum("turns"), tokens: sum("tokens") });
  for (const { cost_usd } of replies) expect(cost_usd).toBeGreaterThan(0);
  expect(used.cost_usd).toBeCloseTo(sum("cost_usd"), 5);
});

test("logs names the parent in each line of JSON, and on a terminal before an agent that is not the configured one's", async () => {
  const { stage, json, text } = await scene();
  for (const parentId of ["parent-0", "parent-0-run"]) await stage.parent(parentId).destroy("w");
  const lines = await json("logs");
  expect(lines.map(({ parent_id, agent_id }) => `${parent_id}/${agent_id}`).sort()).toEqual([
    "parent-0-run/w",
    "parent-0/w",
  ]);
  const said = await text("logs");
  expect(said).toMatch(/^\S+ {2}w {2}ended/m);
  expect(said).toMatch(/^\S+ {2}parent-0-run\/w {2}ended/m);
  expect(await text("logs", "--parent", "parent-0-run")).toMatch(/^\S+ {2}w {2}ended[^\n]*$/);
});

test("the help of each verb that shows several parents says which", async () => {
  const { text } = await scene();
  for (const verb of ["list", "usage", "logs", "show", "watch"]) {
    const help = await text(verb, "--help");
    expect(help, verb).toMatch(/--parent <id> +one parent; default: see below\n/);
    expect(help, verb).toMatch(/\nWithout --parent:? /);
  }
});

test("doctor replay of another parent's run says that this one does not know it, and not that its transcript is gone", async () => {
  const { stage, program } = await scene();
  await stage.startWorker();
  let replyId = "";
  for await (const entry of stage.parent("planner-7").replies()) {
    if (entry.kind !== "reply") continue;
    replyId = entry.reply_id;
    break;
  }
  const replay = (id: string, ...more: string[]) => program("doctor", "replay", id, ...more);
  const unknown = {
    code: 2,
    stderr: [expect.stringMatching(/No run sa-\S+ is known to parent-0, .*: .* ps /)],
  };
  expect(await replay(replyId)).toMatchObject(unknown);
  expect(await replay(`${newUid()}.1`)).toMatchObject(unknown);
  expect(await replay(replyId, "--parent", "planner-7")).toMatchObject({ code: 0, stderr: [] });
  for await (const { ack } of stage.parent("planner-7").replies({ follow: false })) await ack();
  expect(await replay(replyId, "--parent", "planner-7")).toMatchObject({
    code: 2,
    stderr: [expect.stringMatching(/No transcript of the run \S+ is kept: the ack/)],
  });
});

test("ps says that the installation is paused, and that no worker is live, as the other verbs do", async () => {
  const { program, json } = await scene();
  expect(await json("ps")).toMatchObject([{ paused: null }]);
  await program("pause", "--reason", "the budget is used up");
  const { stdout, stderr } = await program("ps");
  expect(stdout.join("\n")).toContain("planner-7");
  expect(stderr).toEqual([
    expect.stringMatching(
      /^All runs wait for .*subagent-queue resume: paused since \S+ \(the budget is used up\)\.$/,
    ),
    expect.stringMatching(/^No worker is live on redis:\S+: what is queued waits until one joins \(/),
  ]);
  expect(await json("ps")).toMatchObject([
    { paused: { at: expect.stringMatching(/Z$/), reason: "the budget is used up" } },
  ]);
});
