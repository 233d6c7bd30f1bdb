/** Guarantee: what the options of a verb say holds for the agent, and the exit code says whether all of it was done. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { runHere, startHere } from "../helpers/program.ts";
import { CLEAN, placeOn, programOn } from "../helpers/program-on-stage.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

const OURS = { tenant: "default", parentId: "parent-0" };

test("run hands each of its options to its sub-agents", async () => {
  const stage = await openStage({ latencyMs: 600_000 });
  await stage.startWorker();
  const flags = [
    ...["--model", "claude-sonnet-5-5", "--system", "Be brief.", "--effort", "low", "--task-budget", "20000"],
    ...["--max-turns", "3", "--max-tokens", "400", "--max-total-tokens", "50000", "--max-cost-usd", "0.5"],
    ...["--max-duration", "90s", "--budget-usd", "2", "--tools", "read_file", "--parent", "parent-0"],
  ];
  const running = startHere(["run", "hello", ...flags], placeOn(stage));
  const [record] = await until(async () => {
    const found = await stage.store.liveRecords(OURS);
    return found.length > 0 && found;
  });
  expect(record?.spec).toMatchObject({
    ...{ model: "claude-sonnet-5-5", system: "Be brief.", effort: "low", task_budget: 20_000 },
    limits: {
      ...{ max_turns: 3, max_tokens: 400, max_total_tokens: 50_000, max_cost_usd: 0.5 },
      max_duration_ms: 90_000,
    },
    budgets: { parent: { max_cost_usd: 2 } },
    tools: ["read_file"],
  });
  expect((await running.kill("SIGTERM")).code).toBe(130);
  expect(await stage.store.liveRecords(OURS)).toEqual([]);
});

test("run has at most as many sub-agents at a time as --parallel says", async () => {
  const stage = await openStage({ latencyMs: 50 });
  await stage.startWorker();
  const { code } = await programOn(stage)("run", "one", "two", "three", "--parallel", "1");
  expect(code).toBe(0);
  const calls = stage.offline.ledger;
  expect(calls).toHaveLength(3);
  for (const [n, { began_at }] of calls.entries())
    expect(began_at).toBeGreaterThanOrEqual(calls[n - 1]?.at ?? 0);
});

test("run whose --timeout leaves a prompt without a sub-agent has not done what it was asked, though every reply succeeded", async () => {
  const stage = await openStage({ latencyMs: 1_500 });
  await stage.startWorker();
  const { code, stdout, stderr } = await programOn(stage)(
    ...["run", "one", "two", "--parallel", "1", "--timeout", "500ms", "--json"],
  );
  const { replies, errors } = JSON.parse(stdout.join(""));
  expect({ replies: replies.map(({ status }: { status: string }) => status), errors }).toEqual({
    replies: ["succeeded"],
    errors: [],
  });
  expect(stderr.join("\n")).toContain("1 of 2 succeeded");
  expect(code).toBe(1);
});

test("answer answers the question that --question names, else the oldest", async () => {
  const ask = (id: string, question: string) =>
    ({ type: "tool_use", id, name: "ask_parent", input: { question } }) as const;
  const questions = [ask("toolu_1", "Which city?"), ask("toolu_2", "Which year?")];
  const stage = await openStage({ scenario: { turns: [{ content: questions }] } });
  await stage.startWorker();
  const parent = stage.parent("parent-0");
  await parent.spawn({ name: "w" });
  await parent.send("w", "hello");
  const { questions: open = [] } = await until(async () => {
    const view = await parent.get("w");
    return view.questions?.length === 2 && view;
  });
  const second = open[1]?.question_id ?? "";
  const answer = async (...args: string[]) =>
    JSON.parse((await programOn(stage)("answer", "w", ...args, "--json")).stdout.join(""));
  expect(await answer("1984", "--question", second)).toMatchObject({ question_id: second });
  expect(await answer("Bern")).toMatchObject({ question_id: open[0]?.question_id });
});

test("spawn keeps the description of an agent, and schedule its time zone", async () => {
  const stage = await openStage();
  const place = placeOn(stage);
  const withModel = { ...place, env: { ...place.env, SUBAGENT_MODEL: "offline-1" } };
  await runHere(["spawn", "w", "--description", "Counts things"], withModel);
  expect(await stage.parent("parent-0").get("w")).toMatchObject({ description: "Counts things" });
  const schedule = async (...args: string[]) => (await runHere(["schedule", ...args], withModel)).stdout;
  await schedule("morning", "--cron", "0 7 * * *", "--tz", "Asia/Tokyo", "--prompt", "hello");
  await schedule("often", "--every", "30m", "--prompt", "hello");
  const [view] = JSON.parse((await schedule("morning", "--json")).join(""));
  expect(view).toMatchObject({ schedule_id: "morning", tz: "Asia/Tokyo" });
  expect(view.next_at).toMatch(/T22:00:00/);
  expect(await schedule("often")).toEqual([
    expect.stringMatching(/^often {2}every 1800 s {2}next \S+ {2}hello$/),
  ]);
});

test("show prints the messages of an agent in the order in which they were sent, also the sixth behind the second", async () => {
  const stage = await openStage();
  const agent = await stage.spawn({ name: "w" });
  const log = stage.keys.agent(agent).log;
  for (let n = 0; n <= 12; n += 2) {
    const message = { v: 1, message_id: `m${n}`, text: `message ${n}` };
    await stage.redis.hset(log, String(n), JSON.stringify({ v: 1, run: 1, messages: [message] }));
  }
  const { stdout } = await programOn(stage)("show", "w", "--json");
  expect(JSON.parse(stdout.join("")).messages).toEqual([0, 2, 4, 6, 8, 10, 12].map((n) => `message ${n}`));
});

test("doctor replay exits with 1 where the log has another decision than the loop makes", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const parent = stage.parent("parent-0");
  const { agent_id } = await parent.spawn({ name: "w", keep_alive: true });
  await parent.send(agent_id, "hello");
  const [address] = await until(async () => {
    const found = await stage.store.liveRecords(OURS);
    return found[0]?.status === "idle" && found;
  });
  const uid = address?.uid ?? "";
  const replay = () => programOn(stage)("doctor", "replay", `${uid}.1`);
  expect((await replay()).code).toBe(0);
  const { log } = stage.keys.agent({ ...OURS, uid });
  const said = JSON.parse((await stage.redis.hget(log, "1")) ?? "");
  await stage.redis.hset(log, "1", JSON.stringify({ ...said, stop_reason: "refusal" }));
  const { code, stdout } = await replay();
  expect(stdout.at(-1)).toMatch(/ decisions, 1 differ$/);
  expect(code).toBe(1);
});

test("definitions exits with 3 where a file cannot be used, with --json too", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "definitions-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true, force: true }));
  writeFileSync(join(cwd, "broken.md"), "---\nname: [\n---\nWork.\n");
  const definitions = (...args: string[]) =>
    runHere(["definitions", ...args], { cwd, env: { ...CLEAN, SUBAGENT_AGENTS: "." } });
  const text = await definitions();
  expect(text.code).toBe(3);
  expect(text.stderr.join("\n")).toMatch(/broken\.md:\d+: /);
  const { code, stdout } = await definitions("--json");
  expect(code).toBe(3);
  expect(JSON.parse(stdout.join("")).problems).toHaveLength(1);
});
