/** Guarantee: what may succeed later is tried again without repeating a committed turn; the rest ends the run at once. */
import { expect, test } from "vitest";
import type { Scenario } from "../../../src/offline/server.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { addUsage } from "../../../src/shared/protocol/content.ts";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage, type SpawnOptions, type StageOptions } from "../../stage/stage.ts";
import {
  connect,
  event,
  messageEnd,
  messageStart,
  send,
  startProvider,
  stream,
  textBlock,
} from "../../unit/worker/model/scripted-provider.ts";

const done = { content: [{ type: "text" as const, text: "done" }] };
const list = { content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }] };

async function runOf(scenario: Scenario, spec?: SpawnOptions, options?: Omit<StageOptions, "scenario">) {
  const installation = await openStage({ scenario, ...options });
  await installation.startWorker({ random: () => 0.1 });
  // A call that is streamed, as one that is watched is, may break in its middle and has a price by then.
  const agent = await installation.watchedTask("work", spec);
  return { reply: await installation.reply(agent), ledger: installation.offline.ledger, installation, agent };
}

test("a short retry-after is waited out without giving the run away", async () => {
  const limited = { status: 429, headers: { "retry-after": "1" } };
  const { reply, ledger, agent, installation } = await runOf({
    turns: [list, { ...done, failures: [limited] }],
  });
  expect(reply).toMatchObject({ status: "succeeded", turns: 2 });
  expect(ledger.map(({ http_status, turn }) => [http_status, turn])).toEqual([
    [200, 0],
    [429, 1],
    [200, 1],
  ]);
  expect((ledger[2]?.at ?? 0) - (ledger[1]?.at ?? 0)).toBeGreaterThanOrEqual(990);
  expect((await installation.record(agent)).wake).toBe(1);
});

test("a long retry-after frees the slot: a run with another model goes first, and waiting is not running time", async () => {
  const limited = { status: 429, headers: { "retry-after": "5" } };
  const installation = await openStage({
    scenario: [
      { match: { user: "patient" }, turns: [list, { ...done, failures: [limited] }] },
      { match: { user: "quick" }, turns: [done] },
    ],
  });
  await installation.startWorker({ concurrency: 1, random: () => 0.1 });
  const patient = await installation.task("patient");
  const released = await installation.recordWhere(
    patient,
    (record) => record.status === "queued" && record.wake === 2,
  );
  expect(released.attempts).toBe(1);
  const quick = await installation.task("quick", { model: "offline-2" });
  expect(await installation.reply(quick)).toMatchObject({ status: "succeeded" });
  expect(await installation.entries(patient)).toEqual([]);
  const reply = await installation.reply(patient);
  expect(reply).toMatchObject({ status: "succeeded", turns: 2 });
  const aliveMs = Date.parse(reply.created_at) - (await installation.record(patient)).created_at;
  expect(reply.duration_ms).toBeLessThanOrEqual(aliveMs - 5_000);
  const served = installation.offline.ledger.filter((call) => call.status === "served");
  expect(served.map(({ turn }) => turn)).toEqual([0, 0, 1]);
  // Who watches is told of the retry when it is decided, not when it is over.
  const timeline = await installation.parent(patient.parentId).timeline(reply.agent_id);
  const told = timeline.map(({ type }) => type);
  expect(told.slice(told.indexOf("model_retry"), told.indexOf("model_retry") + 2)).toEqual([
    "model_retry",
    "released",
  ]);
});

test("a call that took too long is no turn, and its prompt is charged", async () => {
  const stalled = { stream: { stallAfterChunks: 0 } };
  const installation = await openStage({ scenario: { turns: [{ ...done, failures: [stalled, stalled] }] } });
  const { url: baseUrl } = installation.offline;
  const model = createAnthropicModel({ apiKey: "offline", baseUrl, timeoutMs: 500 });
  await installation.startWorker({ model, random: () => 0.1 });
  const reply = await installation.reply(
    await installation.task("work", { limits: { ...SPAWN_LIMITS, max_turns: 2 } }),
  );
  expect(reply).toMatchObject({ status: "succeeded", turns: 1 });
  const { usage } = installation.offline.ledger.at(-1) ?? {};
  expect(reply.usage.input_tokens).toBeGreaterThan(Number(usage?.input_tokens));
});

test.for([
  ["529 three times", [{ status: 529 }, { status: 529 }, { status: 529 }]],
  ["a connection reset before any byte", [{ reset: true as const }]],
  ["a stream that is reset in its middle", [{ stream: { resetAfterChunks: 3 } }]],
  ["overloaded_error within a stream", [{ stream: { errorAfterChunks: 3 } }]],
  ["a stream that ends too early", [{ stream: { truncateAfterChunks: 3 } }]],
  ["500 and 504", [{ status: 500 }, { status: 504 }]],
] as const)("%s is overcome, and the turn before it is not bought again", async ([, failures]) => {
  const { reply, ledger } = await runOf({ turns: [list, { ...done, failures: [...failures] }] });
  expect(reply).toMatchObject({ status: "succeeded", summary: "done", turns: 2 });
  expect(ledger.filter(({ turn }) => turn === 0)).toHaveLength(1);
  expect(ledger.filter(({ turn }) => turn === 1)).toHaveLength(failures.length + 1);
});

test("a call that is tried again begins its turn once for who watches", async () => {
  const { installation, agent } = await runOf({
    turns: [list, { ...done, failures: [{ status: 500 }, { status: 500 }] }],
  });
  const timeline = await installation.parent(agent.parentId).timeline(agent.agentId);
  const told = timeline.filter(({ turn }) => turn === 2).map(({ type }) => type);
  expect(told).toEqual(["turn_started", "model_retry", "model_retry", "turn_finished"]);
});

test("a model that the provider does not know ends the run with its first call, and the reply says what to do", async () => {
  const unknown = { status: 404, message: "model: claude-nope" };
  const { reply, ledger } = await runOf({ turns: [{ error: unknown }] });
  expect(reply).toMatchObject({ status: "failed", stop_reason: "model_error", cost_usd: 0 });
  expect(reply.error).toMatch(
    /^The provider does not know the model "offline-1", .*name a model that it serves\. It says: model: claude-nope/,
  );
  expect(ledger).toHaveLength(1);
});

test("the pauses between failures grow, also when each broken stream had been paid for", async () => {
  // One that says nothing about other calls: no limiter has this run wait as well.
  const broken = { stream: { truncateAfterChunks: 3 } };
  const { reply, ledger } = await runOf({ turns: [{ ...done, failures: [broken, broken, broken, broken] }] });
  const pauses = ledger.slice(1).map((call, i) => call.at - (ledger[i]?.at ?? 0));
  // random = 0.1: a tenth of 0.5, 1, 2 and 4 s.
  expect(pauses.map((ms, i) => ms >= 50 * 2 ** i - 5)).toEqual([true, true, true, true]);
  expect(reply).toMatchObject({ status: "succeeded", turns: 1 });
  expect(reply.usage.input_tokens + reply.usage.cache_creation_input_tokens).toBeGreaterThan(0);
});

test("what a broken stream had cost is part of the reply's usage", async () => {
  const usage = {
    input_tokens: 100,
    output_tokens: 10,
    cache_read_input_tokens: 0,
    cache_creation_input_tokens: 0,
  };
  const { reply } = await runOf({
    turns: [{ ...done, usage, failures: [{ stream: { errorAfterChunks: 3 } }] }],
  });
  expect(reply.usage.input_tokens).toBe(200);
});

test("a proxy's 408 and 504 are no purchases: usage is that of the calls that were served", async () => {
  const failures = [{ status: 504 }, { status: 408 }, { status: 504 }];
  const { reply, ledger } = await runOf({ turns: [list, { ...done, failures }] });
  expect(ledger.map(({ http_status }) => http_status)).toEqual([200, 504, 408, 504, 200]);
  const served = ledger.flatMap(({ status, usage }) => (status === "served" && usage ? [usage] : []));
  expect(reply).toMatchObject({ status: "succeeded", turns: 2, usage: served.reduce(addUsage) });
});

test("a request that is tried again keeps its idempotency key, also for a second time", async () => {
  const { ledger } = await runOf({ turns: [{ ...done, failures: [{ status: 529 }, { status: 500 }] }] });
  expect(ledger).toHaveLength(3);
  expect(new Set(ledger.map(({ idempotency_key }) => idempotency_key)).size).toBe(1);
});

test.for([400, 401, 402, 403, 404])("%i ends the run at once as model_error", async (status) => {
  const { reply, ledger } = await runOf({ turns: [list, { error: { status } }] });
  expect(reply).toMatchObject({
    status: "failed",
    stop_reason: "model_error",
    turns: 1,
    agent_status: "ended",
  });
  expect(reply.error).toBeTruthy();
  expect(ledger.filter(({ turn }) => turn === 1)).toHaveLength(1);
});

test("a conversation that has outgrown the context window is a partial reply with the last text", async () => {
  const message = "prompt is too long: 210000 tokens > 200000 maximum";
  const thinking = { content: [{ type: "text" as const, text: "Half of it." }, ...list.content] };
  const { reply } = await runOf({ turns: [thinking, { error: { status: 400, message } }] });
  expect(reply).toMatchObject({ status: "partial", stop_reason: "context_window", summary: "Half of it." });
});

test("a worker whose model was stopped hands its runs back instead of spinning", async () => {
  const installation = await openStage({ scenario: { turns: [done] } });
  const stopped = {
    call: () => Promise.resolve({ status: "aborted" as const }),
    stop: () => Promise.resolve(),
  };
  await installation.startWorker({ model: stopped });
  const agent = await installation.task("work");
  const released = await installation.recordWhere(
    agent,
    ({ status, wake }) => status === "queued" && wake === 2,
  );
  expect(
    await until(
      async () => (await installation.redis.zcard(`${installation.keys.bullPrefix}:wakes:delayed`)) === 1,
    ),
  ).toBe(true);
  expect(await installation.record(agent)).toEqual(released);
});

test.for([
  [400, { "retry-after": "60" }],
  [404, { "retry-after": "60" }],
  [429, { "x-should-retry": "false" }],
] as const)("a refusal for good, %i with %j, ends the run at once", async ([status, headers]) => {
  const refusal = { status, headers };
  const { reply, ledger } = await runOf({ turns: [{ ...done, failures: [refusal] }] });
  expect(reply).toMatchObject({ status: "failed" });
  expect(ledger).toHaveLength(1);
});

/** What a worker sends whose first call a gateway ends with `status` when it has been silent for `silentMs` by its clock. */
async function callsBehindGateway(silentMs: number, status: number) {
  let aheadMs = 0;
  const provider = await startProvider((response, { json }) => {
    if (provider.received.length === 1) {
      aheadMs += silentMs;
      response.writeHead(status).end();
    } else if (json?.stream === true) {
      stream(response, messageStart() + textBlock(0, "done") + messageEnd("end_turn"));
    } else {
      send(response, done.content, { stop_reason: "end_turn" });
    }
  });
  // Its lease outlives the silence.
  const installation = await openStage({ timing: LONG_TIMING });
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs };
  await installation.startWorker({ model: connect(provider, { clock }), clock, random: () => 0.1 });
  const reply = await installation.parent().task("work");
  return {
    reply,
    calls: provider.received.map(({ headers, json }) => [json?.stream === true, headers["idempotency-key"]]),
  };
}

test("a call that a gateway ended after a silence is made again as a stream, which it lets through", async () => {
  const { reply, calls } = await callsBehindGateway(60_000, 504);
  expect(reply).toMatchObject({ status: "succeeded", summary: "done", turns: 1 });
  expect(calls.map(([isStreamed]) => isStreamed)).toEqual([false, true]);
  // A provider that keeps answers by key would refuse other bytes under the same.
  expect(new Set(calls.map(([, key]) => key)).size).toBe(2);
});

test.each([
  ["a 504 at once", 0, 504],
  ["an overload after a while", 60_000, 529],
])("after %s the same bytes are sent again, under the same key", async (_, silentMs, status) => {
  const { reply, calls } = await callsBehindGateway(silentMs, status);
  expect(reply).toMatchObject({ status: "succeeded", summary: "done", turns: 1 });
  expect(calls).toEqual([calls[0], calls[0]]);
});

test.each([
  [504, true],
  [529, false],
])("a run that was handed back after a %i is streamed by its next holder: %s", async (status, isStreamed) => {
  const failed = { status, headers: { "retry-after": "3" } };
  const installation = await openStage({ scenario: { turns: [{ ...done, failures: [failed] }] } });
  await installation.startWorker({ random: () => 0.1 });
  expect(await installation.parent().task("work")).toMatchObject({ status: "succeeded", turns: 1 });
  expect(installation.offline.ledger.map((call) => call.stream)).toEqual([false, isStreamed]);
});

test.each([true, false])(
  "a reply says what its provider said of a refusal (streamed: %s)",
  async (isStreamed) => {
    const stop_details = { type: "refusal", category: "cyber", explanation: "It asks for\nan exploit." };
    const provider = await startProvider((response, { json }) => {
      if (json?.stream !== true) return send(response, [], { stop_reason: "refusal", stop_details });
      const delta = { stop_reason: "refusal", stop_details };
      const end = event("message_delta", { delta, usage: { output_tokens: 1 } }) + event("message_stop");
      stream(response, messageStart() + end);
    });
    const installation = await openStage();
    await installation.startWorker({ model: connect(provider) });
    const agent = await (isStreamed ? installation.watchedTask("work") : installation.task("work"));
    const error = 'The provider says of its refusal: "cyber: It asks for an exploit.".';
    expect(await installation.reply(agent)).toMatchObject({
      status: "failed",
      stop_reason: "refusal",
      error,
    });
  },
);
