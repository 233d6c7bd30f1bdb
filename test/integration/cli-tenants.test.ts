/** Guarantee: a command acts for the tenant of SUBAGENT_TENANT alone, and shows as many parents as of which usage is kept. */
import { expect, test } from "vitest";
import { parentMember } from "../../src/shared/protocol/keys.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { placeOn, programOn } from "../helpers/program-on-stage.ts";
import { openStage } from "../stage/stage.ts";

const DAY_MS = 86_400_000;

/** An installation with a parent of a run in each of two tenants, both with an agent of the same id. */
async function scene() {
  const stage = await openStage();
  const parents = [
    stage.parent("parent-0-theirs", { tenant: "acme" }),
    stage.parent("parent-0-run", { tenant: "default" }),
  ];
  for (const parent of parents) {
    await parent.spawn({ name: "w" });
    await parent.send("w", "hello");
  }
  const place = placeOn(stage);
  const ofAcme = { ...place, env: { ...place.env, SUBAGENT_TENANT: "acme" } };
  return { stage, parents, place, ofAcme };
}

test("list, usage and logs leave out the parents of another tenant, whatever they are called", async () => {
  const { stage, parents } = await scene();
  const program = programOn(stage);
  const json = async (verb: string) =>
    (await program(verb, "--json")).stdout.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect((await json("list"))[0]?.sub_agents).toMatchObject([{ parent_id: "parent-0-run" }]);
  expect(await json("usage")).toMatchObject([{ other_parents: 1 }]);
  for (const parent of parents) await parent.destroy("w");
  expect(await json("logs")).toMatchObject([{ type: "ended", parent_id: "parent-0-run" }]);
});

test("watch shows no agent of another tenant, and those of a parent that was quiet for some minutes", async () => {
  const { stage, place, parents } = await scene();
  const [acme, ours] = parents;
  const quiet = stage.parent("parent-0-quiet");
  await quiet.spawn({ name: "calm" });
  const member = parentMember({ tenant: "default", parentId: "parent-0-quiet" });
  await stage.redis.zadd(stage.keys.parents, Date.now() - 300_000, member);
  const watch = startHere(["watch", "--json"], place);
  await watch.waitForLine(/"agent_id":"calm"/);
  await acme?.spawn({ name: "theirs" });
  await ours?.spawn({ name: "ours" });
  await watch.waitForLine(/"agent_id":"ours"/);
  const { stdout } = await watch.kill("SIGINT");
  const ids = stdout
    .map((line) => JSON.parse(line))
    .map(({ agent, agent_id }) => agent?.agent_id ?? agent_id);
  expect([...new Set(ids)].sort()).toEqual(["calm", "ours", "w"]);
  for (const line of stdout) expect(JSON.parse(line).parent_id).toMatch(/^parent-0-(run|quiet)$/);
});

test("run begins its agents for the tenant of its environment, and so does an API without keys", async () => {
  const { stage, ofAcme } = await scene();
  await stage.startWorker();
  const ran = await runHere(["run", "hello", "--json"], ofAcme);
  const { parent_id } = JSON.parse(ran.stdout.join("")).replies[0];
  const { parents } = JSON.parse((await programOn(stage)("ps", "--json")).stdout.join(""));
  const found = parents.filter((parent: { parent_id: string }) => parent.parent_id === parent_id);
  expect(found).toMatchObject([{ tenant: "acme" }]);

  const api = startHere(["api", "--port", "0"], ofAcme);
  const [, url] = /ready: api (\S+)/.exec(await api.waitForLine(/^ready: /)) ?? [];
  const spawned = await fetch(`${url}/v1/parents/planner/agents`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name: "a", model: "offline-1" }),
  });
  expect(spawned.status).toBe(201);
  expect(await stage.store.liveRecords({ tenant: "acme", parentId: "planner" })).toHaveLength(1);
});

test("usage adds up the parents of all days for which usage is kept, and each kind of token", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const replies = [
    await stage.parent("parent-0").task("hello"),
    await stage.parent("parent-0-run").task("hello again"),
  ];
  const usage = async () => JSON.parse((await programOn(stage)("usage", "--json")).stdout.join(""));
  const { usage: kinds } = await usage();
  for (const kind of ["input_tokens", "output_tokens", "cache_creation_input_tokens"] as const)
    expect(kinds[kind], kind).toBe(replies.reduce((sum, reply) => sum + reply.usage[kind], 0));
  const activeBefore = (days: number) =>
    stage.redis.zadd(
      stage.keys.parents,
      Date.now() - days * DAY_MS,
      parentMember({ tenant: "default", parentId: "parent-0-run" }),
    );
  await activeBefore(80);
  expect(await usage()).toMatchObject({ replies: 2, other_parents: 1 });
  await activeBefore(100);
  expect(await usage()).toMatchObject({ replies: 1, other_parents: 0 });
});
