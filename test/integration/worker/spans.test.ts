/** Guarantee: whatever workers carry on a run, its log lines and spans are one trace, that of the caller who spawned it. */
import { createServer } from "node:http";
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SamplingDecision,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { createLogger } from "../../../src/shared/logger.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { endLeases } from "../../helpers/leases.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const exporter = new InMemorySpanExporter();
/** Where a part of the SDK that an application brings throws: `<part> <beginning of the span's name>`. */
let trouble = "";
const throwAt = (part: string, name: string) => {
  if (trouble !== "" && `${part} ${name}`.startsWith(trouble)) throw new Error("the SDK is broken");
};
const sampler = {
  shouldSample: (_context: unknown, _traceId: string, name: string) => {
    throwAt("sampler", name);
    return { decision: SamplingDecision.RECORD_AND_SAMPLED };
  },
};
const broken = {
  onStart: ({ name }: { name: string }) => throwAt("start", name),
  onEnd: ({ name }: { name: string }) => throwAt("end", name),
  forceFlush: async () => {},
  shutdown: async () => {},
};
const provider = new BasicTracerProvider({
  sampler,
  spanProcessors: [new SimpleSpanProcessor(exporter), broken],
});
const contexts = new AsyncLocalStorageContextManager().enable();
beforeAll(() => {
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(contexts);
});
afterAll(async () => {
  trace.disable();
  context.disable();
  await provider.shutdown();
});
beforeEach(() => {
  trouble = "";
  exporter.reset();
});

const use = (name: string) => ({ content: [{ type: "tool_use" as const, name, input: {} }] });
const done = { content: [{ type: "text" as const, text: "done" }] };
/** The first call is never answered, the second one is. */
const silence = { stream: { stallAfterChunks: 0 } };
/** A tool of an application that traces what it does. */
const lookUp = defineTool({
  name: "look_up",
  description: "Looks something up.",
  input: z.object({}),
  run: async () => trace.getTracer("application").startActiveSpan("database", (span) => void span.end()),
});

/** Calls `work` in a span of the caller's. */
function inCallersSpan<T>(work: () => Promise<T>): Promise<T> {
  return trace.getTracer("caller").startActiveSpan("plan", async (span) => {
    try {
      return await work();
    } finally {
      span.end();
    }
  });
}

function named(prefix: string): ReadableSpan[] {
  return exporter.getFinishedSpans().filter(({ name }) => name.startsWith(prefix));
}

/** Below which span each one hangs, by name. */
function tree(): string[] {
  const spans = exporter.getFinishedSpans();
  const nameOf = new Map(spans.map((span) => [span.spanContext().spanId, span.name]));
  return spans.map(
    ({ name, parentSpanContext: parent }) => `${parent && nameOf.get(parent.spanId)} > ${name}`,
  );
}

interface Line {
  msg: string;
  trace_id: string;
}

function collected(): { lines: Line[]; logger: ReturnType<typeof createLogger> } {
  const lines: Line[] = [];
  return {
    lines,
    logger: createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } }),
  };
}

test("a run that a second worker takes over is one trace: caller → run → turn → tool, as are its log lines", async () => {
  const stage = await openStage({ scenario: { turns: [use("look_up"), { ...done, failures: [silence] }] } });
  const { lines, logger } = collected();
  const first = await stage.startWorker({ tools: [lookUp], drainGraceMs: 0, logger });
  const parent = stage.parent();
  const replies = parent.replies();
  const spawned = await inCallersSpan(() => parent.spawn({ name: "finder" }));
  await parent.send(spawned.agent_id, "find it");
  await until(() => stage.offline.ledger.length === 1 && stage.offline.inFlight === 1);
  await first.stop();
  await stage.startWorker({ tools: [lookUp], logger });
  const { value: reply } = await replies.next();
  expect(reply).toMatchObject({ status: "succeeded", turns: 2 });
  await until(() => named("invoke_agent").length === 2);

  const spans = exporter.getFinishedSpans();
  expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
  expect(tree().sort()).toEqual([
    "chat offline-1 > execute_tool look_up",
    "execute_tool look_up > database",
    "invoke_agent finder > chat offline-1",
    "invoke_agent finder > chat offline-1",
    "invoke_agent finder > chat offline-1",
    "plan > invoke_agent finder",
    "plan > invoke_agent finder",
    "undefined > plan",
  ]);
  const [, second] = named("invoke_agent");
  expect(named("invoke_agent").map(({ attributes }) => attributes["subagent.end"])).toEqual([
    "released: drain",
    "settled",
  ]);
  expect(second?.attributes).toMatchObject({
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.agent.id": spawned.agent_id,
    "gen_ai.agent.name": "finder",
    "gen_ai.request.model": "offline-1",
    "subagent.stop_reason": "end_turn",
  });
  const [turn, cutOff] = named("chat");
  expect(turn).toMatchObject({
    kind: SpanKind.CLIENT,
    attributes: { "gen_ai.response.finish_reasons": ["tool_use"] },
  });
  expect(turn?.attributes["gen_ai.usage.input_tokens"]).toBeGreaterThan(0);
  expect(cutOff).toMatchObject({
    attributes: { "error.type": "aborted" },
    status: { code: SpanStatusCode.ERROR },
  });

  const told = lines.filter(({ msg }) => msg === "Turn" || msg === "Run");
  const [caller] = named("plan");
  expect(told.map(({ msg }) => msg)).toEqual(["Turn", "Turn", "Run"]);
  expect(new Set(told.map(({ trace_id }) => trace_id))).toEqual(new Set([caller?.spanContext().traceId]));
  expect(told[0]).toMatchObject({
    agent_id: spawned.agent_id,
    parent_id: "planner-7",
    run: 1,
    turn: 1,
    stop_reason: "tool_use",
    tools: [{ tool: "look_up", ms: expect.any(Number) }],
  });
  expect(JSON.stringify(lines)).not.toContain("find it");
});

test.each([
  "sampler",
  "start invoke",
  "start chat",
  "end chat",
  "start execute",
  "end execute",
  "end invoke",
])("an SDK that throws ends no run, buys no answer and performs no tool again: %s", async (where) => {
  const stage = await openStage({ scenario: { turns: [use("pay"), done] } });
  let paid = 0;
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    input: z.object({}),
    run: async () => {
      paid += 1;
      return "paid";
    },
  });
  const { lines, logger } = collected();
  await stage.startWorker({ tools: [pay], logger });
  trouble = where;
  const reply = await stage.parent().task({ prompt: "work" });
  expect(reply).toMatchObject({ status: "succeeded", turns: 2, tools_called: { pay: 1 } });
  await until(() => lines.some(({ msg }) => msg === "Run"));
  expect({ paid, bought: stage.offline.ledger.length }).toEqual({ paid: 1, bought: 2 });
  expect(lines.filter(({ msg }) => msg.startsWith("Run broke off"))).toEqual([]);
  // What the model was told is the tool's own outcome.
  expect(lines.find(({ msg }) => msg === "Turn")).toMatchObject({ tools: [{ tool: "pay" }] });
  expect(JSON.stringify(lines)).not.toContain('"error":true');
});

test("a call that a limited model leaves to the next of its chain is a span of that one", async () => {
  const limited = { status: 429, headers: { "retry-after": "30" } };
  const stage = await openStage({ scenario: { turns: [{ ...done, failures: [limited] }] } });
  await stage.startWorker();
  const chain = { model: "claude-sonnet-4-5", fallback_models: ["claude-haiku-4-5"] };
  expect(await stage.parent().task({ prompt: "work", ...chain })).toMatchObject({ status: "succeeded" });
  await until(() => named("invoke_agent").length === 1);
  expect(named("chat").map(({ name }) => name)).toEqual(["chat claude-sonnet-4-5", "chat claude-haiku-4-5"]);
});

test("a run that no worker can read ends as a failed one for operators too: with a span and a line", async () => {
  const stage = await openStage();
  const { redis, keys } = stage;
  const { lines, logger } = collected();
  const agent = await stage.task("work");
  await redis.hset(keys.agent(agent).log, "0", "{");
  await redis.hset(keys.agent(agent).record, { breaks: "2" });
  await stage.startWorker({ logger });
  const span = await until(() => named("invoke_agent")[0], { what: "the span of the run" });
  expect(span.attributes).toMatchObject({ "subagent.stop_reason": "worker_lost", "subagent.end": "settled" });
  expect(span.status.code).toBe(SpanStatusCode.ERROR);
  expect(lines).toContainEqual(expect.objectContaining({ msg: "Run", stop_reason: "worker_lost" }));
});

test("a worker that is killed takes its spans with it; the run goes on in the trace of its caller", async () => {
  const stage = await openStage({
    scenario: { turns: [{ ...done, failures: [silence] }] },
    timing: LONG_TIMING,
  });
  const killed = await stage.spawnWorker();
  const parent = stage.parent();
  const working = inCallersSpan(() => parent.task({ name: "survivor", prompt: "work" }));
  await until(() => stage.offline.inFlight === 1);
  await killed.kill();
  await endLeases(stage);
  await stage.startWorker();
  await expect(working).resolves.toMatchObject({ status: "succeeded" });
  await until(() => named("invoke_agent").length === 1 && named("plan").length === 1);
  expect(tree()).toContain("plan > invoke_agent survivor");
});

test("without a caller's span every worker finds the same trace; one that is given as an argument is kept", async () => {
  const stage = await openStage({ scenario: { turns: [done] } });
  const { lines, logger } = collected();
  await stage.startWorker({ logger });
  const own = await stage.task("work");
  await stage.reply(own);
  await until(() => named("invoke_agent").length === 1);
  const [first] = named("invoke_agent");
  expect(first?.spanContext().traceId).toMatch(/^[0-9a-f]{32}$/);
  expect(lines.find(({ msg }) => msg === "Run")?.trace_id).toBe(first?.spanContext().traceId);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await stage.parent().task({ prompt: "work", traceparent });
  await until(() => named("invoke_agent").length === 2);
  const second = named("invoke_agent").at(-1);
  expect(second?.spanContext().traceId).toBe("0af7651916cd43dd8448eb211c80319c");
  expect(second?.parentSpanContext?.spanId).toBe("b7ad6b7169203331");
  await expect(stage.parent().task({ prompt: "work", traceparent: "00-1-2-3" })).rejects.toMatchObject({
    code: "invalid_input",
    message: expect.stringContaining("traceparent"),
  });
});

test.each([false, true])(
  "the provider is sent the traceparent of its call only where that is set: %s",
  async (sendTraceparent) => {
    const stage = await openStage({ scenario: { turns: [done] } });
    const heard: (string | undefined)[] = [];
    const relay = createServer(async (request, response) => {
      heard.push(request.headers.traceparent?.toString());
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const answer = await fetch(stage.offline.url + request.url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          authorization: "Bearer offline",
          "anthropic-version": "2023-06-01",
        },
        body: Buffer.concat(chunks),
      });
      response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
      response.end(Buffer.from(await answer.arrayBuffer()));
    }).listen(0, "127.0.0.1");
    closeAtEnd(() => void relay.close());
    await until(() => relay.listening);
    const { port } = relay.address() as { port: number };
    const model = createAnthropicModel({ apiKey: "offline", baseUrl: `http://127.0.0.1:${port}` });
    closeAtEnd(() => model.stop());
    await stage.startWorker({ model, sendTraceparent });
    await stage.reply(await stage.task("work"));
    const call = await until(() => named("chat")[0]);
    const { traceId, spanId } = call.spanContext();
    expect(heard).toEqual([sendTraceparent ? `00-${traceId}-${spanId}-01` : undefined]);
  },
);
