/** Guarantee: while the first model of an agent's chain cannot answer, the next one does, and the reply names it. */
import { expect, test } from "vitest";
import type { Scenario } from "../../../src/offline/server.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type SpawnOptions } from "../../stage/stage.ts";

const done = { content: [{ type: "text" as const, text: "done" }] };
const CHAIN = { model: "claude-sonnet-4-5", fallback_models: ["claude-haiku-4-5"] };

async function runOf(scenario: Scenario, spec: SpawnOptions = CHAIN) {
  const installation = await openStage({ scenario });
  await installation.startWorker({ random: () => 0.1 });
  const agent = await installation.task("work", spec);
  const reply = await installation.reply(agent);
  const calls = installation.offline.ledger.map(({ model, http_status }) => [model, http_status]);
  const timeline = await installation.parent(agent.parentId).timeline(reply.agent_id);
  return { reply, calls, timeline, ledger: installation.offline.ledger };
}

test("a model that is limited for half a minute is not waited for: the next one answers, at its own price", async () => {
  const limited = { status: 429, headers: { "retry-after": "30" } };
  const usage = {
    input_tokens: 1_000,
    output_tokens: 100,
    cache_read_input_tokens: 0,
    cache_creation_input_tokens: 0,
  };
  const { reply, calls, timeline } = await runOf({ turns: [{ ...done, usage, failures: [limited] }] });
  expect(calls).toEqual([
    ["claude-sonnet-4-5", 429],
    ["claude-haiku-4-5", 200],
  ]);
  expect(reply).toMatchObject({ status: "succeeded", model: "claude-haiku-4-5" });
  // 1,000 tokens at 1 USD a million, and 100 at 5.
  expect(reply.cost_usd).toBeCloseTo(0.0015, 9);
  expect(timeline).toContainEqual(
    expect.objectContaining({ type: "model_retry", turn: 1, kind: "rate_limited", delay_ms: 0 }),
  );
});

test("a model that the provider does not know is left out of the chain", async () => {
  const list = { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }] };
  const { reply, calls } = await runOf({ turns: [{ ...list, failures: [{ status: 404 }] }, done] });
  expect(calls).toEqual([
    ["claude-sonnet-4-5", 404],
    ["claude-haiku-4-5", 200],
    ["claude-haiku-4-5", 200],
  ]);
  expect(reply).toMatchObject({ status: "succeeded", turns: 2 });
});

test("a chain of which every model is limited waits, and goes on with the first that may be asked", async () => {
  const limited = { status: 429, headers: { "retry-after": "1" } };
  const { reply, calls, ledger } = await runOf({ turns: [{ ...done, failures: [limited, limited] }] });
  expect(calls.map(([, status]) => status)).toEqual([429, 429, 200]);
  expect((ledger[2]?.at ?? 0) - (ledger[0]?.at ?? 0)).toBeGreaterThanOrEqual(990);
  expect(reply.status).toBe("succeeded");
});

test.each([
  ["the first", 1, 30, "claude-sonnet-4-5"],
  ["the last", 30, 1, "claude-haiku-4-5"],
] as const)(
  "of a chain of which every model is limited, %s is waited for if it is free first",
  async (_, first, last, model) => {
    const limited = (seconds: number) => ({ status: 429, headers: { "retry-after": `${seconds}` } });
    const meetsBoth = { ...done, failures: [limited(first), limited(last)] };
    const scenario = [{ match: { user: "both" }, turns: [meetsBoth] }, { turns: [done] }];
    const installation = await openStage({ scenario });
    await installation.startWorker({ random: () => 0.1 });
    await installation.task("meet both", CHAIN);
    await until(() => installation.offline.ledger.length === 2);
    const reply = await installation.reply(await installation.task("work", CHAIN));
    expect(reply).toMatchObject({ status: "succeeded", model });
  },
);

test.each([
  ["breaks off", { reset: true as const }],
  ["is out of order", { status: 500 }],
  ["is overloaded", { status: 529 }],
])("a model whose provider %s is followed by the next one at once", async (_, failure) => {
  const { reply, calls } = await runOf({ turns: [{ ...done, failures: [failure] }] });
  expect(calls.at(-1)).toEqual(["claude-haiku-4-5", 200]);
  expect(reply).toMatchObject({ status: "succeeded", model: "claude-haiku-4-5" });
});
