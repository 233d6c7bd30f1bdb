/** Guarantee: beyond a budget an agent buys one call, with which it reports results; a Redis that refuses writes changes no budget. */
import { expect, test } from "vitest";
import { budgetsOf, readSpent } from "../../../src/shared/redis/budget.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";
import { messageStart, type Script, send, startProvider } from "../../unit/worker/model/scripted-provider.ts";

const usage = {
  input_tokens: 900,
  output_tokens: 100,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
const CALL_TOKENS = 1_000;
const said = (text: string) => ({ content: [{ type: "text" as const, text }], usage });

test("a spent budget sells nothing to a run whose first call is its last one", async () => {
  const stage = await openStage({ scenario: { turns: [said("done")], hand_back: said("so far") } });
  await stage.startWorker();
  const parent = stage.parent("single", { budgets: { parent: { max_total_tokens: 1 } } });
  const reply = await parent.task({ prompt: "work", limits: { max_turns: 1 } });
  expect(reply).toMatchObject({ stop_reason: "max_total_tokens", turns: 0, tokens: 0 });
  expect(stage.offline.ledger).toEqual([]);
});

/** A task with 3,500 tokens, of its budget or, beside a larger one, of its limits, whose ordinary calls take 1,000 each, and whose final calls are answered by `finals`, then cut off. */
async function taskWithFinalCalls(finals: Script[] = [], { budget = 3_500, limits = {} } = {}) {
  const answers = [...finals];
  const provider = await startProvider((response, request) => {
    const call = {
      type: "tool_use",
      id: "t",
      name: "glob",
      input: { pattern: `${provider.received.length}` },
    };
    if (!request.text.includes('"tool_choice":{"type":"none"}'))
      return send(response, [{ type: "text", text: "Found." }, call], { stop_reason: "tool_use", usage });
    const answer = answers.shift();
    if (answer) return answer(response, request);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(messageStart({ usage }), () => response.destroy());
  });
  const stage = await openStage();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  await stage.startWorker({ model, random: () => 0 });
  const budgets = { agent: { max_total_tokens: budget } };
  const reply = await stage.parent("broken", { budgets }).task({ prompt: "work", limits });
  return { reply, calls: provider.received.length };
}

test("a final call beyond a budget that is paid for and broken is not bought again", async () => {
  const { reply, calls } = await taskWithFinalCalls();
  expect(reply).toMatchObject({ status: "partial", stop_reason: "max_total_tokens", summary: "Found." });
  expect(reply.error).toMatch(/^The budget is spent, and the last call/);
  expect(reply.tokens).toBe(4 * CALL_TOKENS);
  expect(calls).toBe(4);
});

test("a final call beyond a budget that cost nothing is made again", async () => {
  const { reply, calls } = await taskWithFinalCalls([
    (response) => response.writeHead(500).end(),
    (response) => send(response, [{ type: "text", text: "All of it." }], { usage }),
  ]);
  expect(reply).toMatchObject({ status: "partial", stop_reason: "max_total_tokens", summary: "All of it." });
  expect(reply.error).toBe("The budget of this agent has no room for another call.");
  expect(calls).toBe(5);
});

test("a final call within a budget that is paid for and broken is bought again", async () => {
  const { reply, calls } = await taskWithFinalCalls(
    [
      (response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(messageStart({ usage }), () => response.destroy());
      },
      (response) => send(response, [{ type: "text", text: "All of it." }], { usage }),
    ],
    { budget: 1_000_000, limits: { max_total_tokens: 3_500 } },
  );
  expect(reply).toMatchObject({ status: "partial", stop_reason: "max_total_tokens", summary: "All of it." });
  expect(calls).toBe(4);
});

test("a Redis that refuses writes for a while leaves no reservation behind: the budget counts what the calls cost", async () => {
  const look = { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }], usage };
  const scenario = { turns: [look, said("done")] };
  const stage = await openStage({ redis: "own", scenario, latencyMs: 200 });
  await stage.startWorker();
  const budgets = { parent: { max_total_tokens: 100 * CALL_TOKENS } };
  const task = stage.parent("refused", { budgets }).task("work");
  await until(() => stage.offline.inFlight > 0);
  await stage.observer.config("SET", "min-replicas-to-write", "1");
  // The first write behind a call settles its reservation; the next ones are the commit's.
  const refused = /errorstat_NOREPLICAS:count=(\d+)/;
  await until(async () => Number(refused.exec(await stage.observer.info("errorstats"))?.[1]) >= 3);
  await stage.observer.config("SET", "min-replicas-to-write", "0");
  expect(await task).toMatchObject({ status: "succeeded", tokens: 2 * CALL_TOKENS });
  const [budget] = budgetsOf({ tenant: "default", parentId: "refused", uid: "" }, budgets);
  if (!budget) throw new Error("no budget binds the parent");
  await until(async () => (await readSpent(stage.redis, stage.keys, budget)).tokens === 2 * CALL_TOKENS);
});
