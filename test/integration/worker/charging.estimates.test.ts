/** Guarantee: tokens that a provider does not report are estimated, and no discount that it does not give. */
import { expect, test } from "vitest";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";
import {
  messageStart,
  type Script,
  send,
  startProvider,
  textBlock,
} from "../../unit/worker/model/scripted-provider.ts";

/** The usage of a task whose calls are answered by `script`; it gets their number, from 1. */
async function usageOfTask(script: (call: number) => Script, prompt = "work") {
  const provider = await startProvider((response, request) => {
    script(provider.received.length)(response, request);
  });
  const stage = await openStage();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  await stage.startWorker({ model });
  return (await stage.parent("estimated").task(prompt)).usage;
}

const told = (text: string, usage: object | undefined) => (response: Parameters<Script>[0]) =>
  send(response, [{ type: "text", text }], { usage });
const looks = (usage: object) => (response: Parameters<Script>[0]) =>
  send(response, [{ type: "tool_use", id: "t1", name: "glob", input: { pattern: "*" } }], {
    stop_reason: "tool_use",
    usage,
  });

test("an answer that reports its prompt and not its output is charged its output by its bytes", async () => {
  const usage = await usageOfTask(() => told("x".repeat(4_000), { input_tokens: 900 }));
  expect(usage.input_tokens).toBe(900);
  expect(usage.output_tokens).toBeGreaterThanOrEqual(1_000);
  expect(usage.output_tokens).toBeLessThan(1_050);
});

test.each(["whole", "streamed"])("a call is not charged what no call can have: %s", async (form) => {
  const beyond = { input_tokens: 900_000_000, output_tokens: 900_000_000 };
  const streamed: Script = (response) => {
    const end = { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: beyond };
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(messageStart() + textBlock(0, "x".repeat(4_000)));
    response.end(`data: ${JSON.stringify(end)}\n\ndata: {"type":"message_stop"}\n\n`);
  };
  const usage = await usageOfTask(() => (form === "whole" ? told("x".repeat(4_000), beyond) : streamed));
  expect(usage.input_tokens).toBeLessThan(5_000);
  expect(usage.output_tokens).toBeGreaterThanOrEqual(1_000);
  expect(usage.output_tokens).toBeLessThan(1_050);
});

test("a prompt without a bill has its full price where the provider has cached nothing before", async () => {
  const reported = { input_tokens: 900, output_tokens: 10 };
  const usage = await usageOfTask((call) => (call === 1 ? looks(reported) : told("done", undefined)));
  expect(usage.cache_read_input_tokens).toBe(0);
  expect(usage.input_tokens).toBeGreaterThan(2 * 900);
});

test("a prompt without a bill is read from the cache as far as the call before read or wrote it", async () => {
  const cached = { cache_read_input_tokens: 500, cache_creation_input_tokens: 300 };
  const reported = { input_tokens: 100, output_tokens: 10, ...cached };
  const script = (call: number) => (call === 1 ? looks(reported) : told("done", undefined));
  // What the first call has sent is not counted by its bytes once more.
  const usage = await usageOfTask(script, "x".repeat(4_000));
  expect(usage.cache_read_input_tokens).toBe(500 + 800);
  expect(usage.input_tokens).toBeGreaterThan(2 * 100);
  expect(usage.input_tokens).toBeLessThan(2 * 100 + 200);
});

test("a destroy of an agent whose answer is being streamed charges the output that has arrived", async () => {
  const stage = await openStage();
  const provider = await startProvider((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(messageStart() + textBlock(0, "x".repeat(4_000)));
  });
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  await stage.startWorker({ model });
  const agent = await stage.watchedTask("work");
  await until(() => provider.received.length === 1);
  await stage.destroy(agent);
  const parent = stage.parent(agent.parentId);
  const { usage } = await until(async () => {
    const used = await parent.usage();
    return used.tokens > 0 && used;
  });
  expect(usage).toMatchObject({ input_tokens: 10, output_tokens: 1_000, cache_creation_input_tokens: 4 });
});
