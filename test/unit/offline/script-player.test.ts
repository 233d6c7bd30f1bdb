/** What a script answers, by the turn and the calls before; docs/operations.md promises it. */
import { expect, test } from "vitest";
import { createOfflineModel, type Scenario } from "../../../src/offline/server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });

/** What the tests read of an answer. */
interface Answer {
  content: { text?: string; input?: unknown }[];
  usage: { input_tokens: number; output_tokens: number };
  error?: { type: string; message: string };
}

async function open(scenario: Scenario) {
  const offline = createOfflineModel({ scenario });
  await offline.start();
  closeAtEnd(() => offline.stop());
  const ask = async (messages: unknown[], more: Record<string, unknown> = {}) => {
    const body = JSON.stringify({ model: "m", max_tokens: 100, messages, ...more });
    const response = await fetch(`${offline.url}/v1/messages`, { method: "POST", body });
    return { status: response.status, answer: (await response.json()) as Answer };
  };
  return { offline, ask };
}

test("after its last turn a script repeats that one", async () => {
  const { ask } = await open({ turns: [say("one"), say("two")], repeat: true });
  const history = [user("hi"), assistant("one"), user("on"), assistant("two"), user("on")];
  expect((await ask(history)).answer.content).toMatchObject([{ text: "two" }]);
});

test("a request just within the window is answered, a longer one is too long", async () => {
  const script = (windowTokens: number) => ({ turns: [say("x")], windowTokens });
  const { offline, ask } = await open(script(1_000));
  const tokens = (await ask([user("hello")])).answer.usage.input_tokens;
  offline.setScenario(script(tokens));
  expect((await ask([user("hello")])).status).toBe(200);
  offline.setScenario(script(tokens - 1));
  const { status, answer } = await ask([user("hello")]);
  expect(status).toBe(400);
  expect(answer.error).toEqual({
    type: "invalid_request_error",
    message: `prompt is too long: ${tokens} tokens > ${tokens - 1} maximum`,
  });
});

test("failures are counted for each conversation and turn, and anew for each scenario", async () => {
  const failing = { ...say("x"), failures: [{ status: 529 }] };
  const scenario = { turns: [failing, failing] };
  const { offline, ask } = await open(scenario);
  const later = [user("a"), assistant("x"), user("on")];
  const statuses = async () => {
    const answers = [];
    for (const messages of [[user("a")], [user("a")], [user("b")], later, later])
      answers.push((await ask(messages)).status);
    return answers;
  };
  expect(await statuses()).toEqual([529, 200, 529, 529, 200]);
  offline.setScenario(scenario);
  expect(await statuses()).toEqual([529, 200, 529, 529, 200]);
});

test("an error and a reset take their time, too", async () => {
  const latencyMs = 150;
  const failing = { ...say("x"), latencyMs, failures: [{ reset: true as const }, { status: 529 }] };
  const { offline, ask } = await open([
    { match: { user: "refused" }, turns: [{ error: { status: 400 }, latencyMs }] },
    { turns: [failing] },
  ]);
  await expect(ask([user("hi")])).rejects.toThrow();
  await ask([user("hi")]);
  await ask([user("refused")]);
  const tookMs = offline.ledger.map(({ at, began_at }) => at - began_at);
  expect(tookMs.map((ms) => ms >= latencyMs - 5)).toEqual([true, true, true]);
});

test("placeholders are filled in every text of an input", async () => {
  const input = { list: ["{{user}} and {{user}}", { deep: "{{turn}}" }], n: 1 };
  const { ask } = await open({ turns: [{ content: [{ type: "tool_use", name: "glob", input }] }] });
  const { answer } = await ask([user("$& it")]);
  expect(answer.content[0]?.input).toEqual({ list: ["$& it and $& it", { deep: "0" }], n: 1 });
});

test("a script sets single counts of the usage, and thinks with a signature", async () => {
  const content = [{ type: "thinking" as const, thinking: "Hm." }];
  const { ask } = await open({ turns: [{ content, usage: { input_tokens: 9_000 } }] });
  const { answer } = await ask([user("hi")]);
  expect(answer.usage).toMatchObject({ input_tokens: 9_000, cache_read_input_tokens: 0 });
  expect(answer.usage.output_tokens).toBeGreaterThan(1);
  expect(answer.content).toEqual([
    { type: "thinking", thinking: "Hm.", signature: expect.stringMatching(/./) },
  ]);
});

test("where no tool may be called, the words of the turn are said without its calls", async () => {
  const call = { type: "tool_use" as const, name: "glob", input: {} };
  const { ask } = await open({ turns: [{ content: [...say("So far.").content, call] }] });
  const tools = [{ name: "glob", input_schema: { type: "object" } }];
  const { answer } = await ask([user("hi")], { tools, tool_choice: { type: "none" } });
  expect(answer).toMatchObject({ stop_reason: "end_turn", content: [{ type: "text", text: "So far." }] });
  expect(answer.content).toHaveLength(1);
});

test("a scenario that cannot be played is refused with all its problems", () => {
  const turns = [{ latencyMs: -1, odd: 1 }];
  const make = () => Reflect.apply(createOfflineModel, undefined, [{ scenario: { turns, windowTokens: 0 } }]);
  for (const place of ["turns.0.latencyMs", "turns.0:", "windowTokens"]) expect(make).toThrow(place);
});
