/** What commands show, each in its own words and as JSON: whose it is, what it has cost, and what became of it. */
import { expect, test } from "vitest";
import { DoctorReport } from "../../src/cli/doctor/report.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { placeOn, programOn } from "../helpers/program-on-stage.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });

function programs(stage: Stage, more: Record<string, string> = {}) {
  const place = placeOn(stage);
  const here = { ...place, env: { ...place.env, ...more } };
  const ask = (...args: string[]) => runHere(args, here);
  const json = async (...args: string[]) => JSON.parse((await ask(...args, "--json")).stdout.join(""));
  return { ask, json };
}

test("a key has no more rights than to spawn, unless they are asked for; list says which are revoked", async () => {
  const ask = programOn(await openStage());
  const none = await ask("keys", "list");
  expect(none).toMatchObject({
    code: 0,
    stdout: [],
    stderr: [expect.stringMatching(/^No API key has been/)],
  });
  const made = await ask("keys", "create", "billing");
  expect(made.stdout).toEqual([expect.stringMatching(/^saq_/)]);
  const said = /^Key (\S+) for tenant "default" with scope spawn: it is not shown again\.$/;
  const [, id = ""] = said.exec(made.stderr.join()) ?? [];
  const reader = await ask("keys", "create", "reader", "--scope", "read", "--tenant", "acme");
  expect(reader.stderr.join()).toMatch(/for tenant "acme" with scope read/);
  await ask("keys", "revoke", id);
  const listed = (await ask("keys", "list")).stdout.map((line) => line.split(/ {2,}/));
  expect(listed[0]).toEqual(["key id", "name", "tenant", "scope", "created", "last used", "revoked"]);
  const instant = expect.stringMatching(/^\d{4}-.*Z$/);
  expect(listed.slice(1)).toEqual(
    expect.arrayContaining([
      [id, "billing", "default", "spawn", instant, "-", instant],
      [expect.any(String), "reader", "acme", "read", instant, "-", "-"],
    ]),
  );
});

test("ps --json has the agents, the use of today and the unacked replies of a parent", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const parent = stage.parent("parent-0");
  const { turns, tokens } = await parent.task("hello");
  await parent.spawn({ name: "idle" });
  await parent.spawn({ name: "asker" });
  await parent.send("asker", "Ask your parent: Which city?");
  for await (const { kind } of parent.replies()) if (kind === "question") break;
  const { parents } = await programs(stage).json("ps");
  expect(parents).toMatchObject([{ parent_id: "parent-0", today: { turns, tokens }, unacked: 1 }]);
  expect(parents[0].sub_agents).toEqual(
    expect.arrayContaining([
      { agent_id: "idle", status: "idle", run: 0 },
      { agent_id: "asker", status: "waiting", run: 1 },
    ]),
  );
});

test("show --parent shows the agent of that parent, though another one has one of the same id", async () => {
  const stage = await openStage();
  for (const parentId of ["parent-0", "planner-7"]) {
    await stage.parent(parentId).spawn({ name: "w" });
    await stage.parent(parentId).send("w", `for ${parentId}`);
  }
  const { json } = programs(stage);
  expect(await json("show", "w")).toMatchObject({ parent_id: "parent-0", unread: ["for parent-0"] });
  expect(await json("show", "w", "--parent", "planner-7")).toMatchObject({
    parent_id: "planner-7",
    unread: ["for planner-7"],
  });
});

test("usage counts from --since on, and says what is spent of a budget", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const { ask, json } = programs(stage, { SUBAGENT_BUDGET_PARENT_USD: "5" });
  await ask("run", "hello", "--parent", "parent-0", "--model", "claude-haiku-4-5");
  const all = await json("usage");
  expect(all).toMatchObject({ replies: 1, since: null, budgets: [{ of: "parent", max_cost_usd: 5 }] });
  expect(all.cost_usd).toBeGreaterThan(0);
  expect(all.budgets[0].spent_usd).toBeCloseTo(all.cost_usd, 5);
  const later = await json("usage", "--since", "2999-01-01");
  expect(later).toMatchObject({ replies: 0, turns: 0, since: "2999-01-01" });
  expect((await ask("usage", "--since", "2999-01-01")).stdout[0]).toBe("parent-0, since 2999-01-01");
});

test("watch --parent follows that parent alone; without it an agent of another parent is named with it", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const [planner, other] = [stage.parent("planner-7"), stage.parent("parent-0-run")];
  for (const parent of [planner, other]) await parent.spawn({ name: "w" });
  const one = startHere(["watch", "--parent", "planner-7", "--json"], placeOn(stage));
  const all = startHere(["watch"], placeOn(stage));
  await Promise.all([one.waitForLine(/"agent_id":"w"/), all.waitForLine("w: idle")]);
  await other.send("w", "hello");
  await all.waitForLine(/^parent-0-run\/w: started, at most \d+ turns$/);
  await planner.spawn({ name: "late" });
  await one.waitForLine(/"agent_id":"late"/);
  const { stdout } = await one.kill("SIGINT");
  const parents = stdout.map((line) => JSON.parse(line).parent_id);
  expect([...new Set(parents)]).toEqual(["planner-7"]);
});

test("the doctor's report says whether there are warnings only, and what it measured", async () => {
  const stage = await openStage();
  const { ask } = programs(stage, { ANTHROPIC_BASE_URL: stage.offline.url, ANTHROPIC_API_KEY: "x" });
  const report = async () => {
    const { code, stdout } = await ask("doctor", "--json", "--measure");
    return { code, ...DoctorReport.parse(JSON.parse(stdout.join(""))) };
  };
  const warned = await report();
  expect(warned).toMatchObject({ code: 0, status: "warnings", errors: 0, warnings: warned.findings.length });
  expect(warned.areas.at(-1)?.area).toBe("model");
  expect(warned.measured?.map(({ concurrency, calls }) => [concurrency, calls])).toEqual([
    [1, 4],
    [2, 6],
    [4, 12],
    [8, 24],
  ]);
  stage.offline.setScenario({ turns: [{ error: { status: 401 } }] });
  const failed = await report();
  expect(failed).toMatchObject({ code: 1, status: "errors", errors: 1, measured: [] });
  expect(failed.findings).toContainEqual(
    expect.objectContaining({ check: "model_failed", severity: "error" }),
  );
});

test("doctor replay --json has each decision, and how many differ", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const parent = stage.parent("parent-0");
  await parent.spawn({ name: "w", keep_alive: true });
  await parent.send("w", "hello");
  let replyId = "";
  for await (const entry of parent.replies()) {
    replyId = entry.kind === "reply" ? entry.reply_id : "";
    break;
  }
  const replayed = await programs(stage).json("doctor", "replay", replyId);
  expect(replayed).toMatchObject({ reply_id: replyId, different: 0 });
  expect(replayed.decisions.map(({ agrees }: { agrees: boolean }) => agrees)).toContain(true);
});

test("spawn makes the agent from the definition that --agent names, with the model of --model", async () => {
  const stage = await openStage();
  const { json } = programs(stage);
  const made = await json("spawn", "w", "--agent", "explorer", "--model", "claude-haiku-4-5");
  expect(made).toMatchObject({ agent_id: "w", model: "claude-haiku-4-5" });
  const [record] = await stage.store.liveRecords({ tenant: "default", parentId: "parent-0" });
  expect(record?.spec).toMatchObject({ definition: "explorer", model: "claude-haiku-4-5" });
});

test("run --json has replies in the order of the prompts, and the code of each error", async () => {
  const stage = await openStage({
    scenario: [{ match: { user: "slow" }, turns: [{ ...say("x"), latencyMs: 300 }] }, { turns: [say("y")] }],
  });
  await stage.startWorker();
  const { ask, json } = programs(stage);
  const { replies } = await json("run", "slow", "quick");
  expect(replies.map(({ name }: { name: string }) => name)).toEqual(["slow", "quick"]);
  const refused = await ask("run", "--json", "--max-cost-usd", "1", "--model", "unpriced", "a", "b");
  const { errors, destroyed } = JSON.parse(refused.stdout.join(""));
  const code = "unknown_price";
  expect(errors).toMatchObject([
    { name: "a", code },
    { name: "b", code },
  ]);
  expect({ code: refused.code, destroyed }).toEqual({ code: 3, destroyed: 0 });
});
