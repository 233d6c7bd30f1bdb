/** What a client of the offline model relies on byte by byte. */
import { expect, test } from "vitest";
import { compose } from "../../../src/offline/answer.ts";
import { createPromptCache, fingerprint } from "../../../src/offline/cache.ts";
import { createSemaphore } from "../../../src/offline/messages.ts";
import { createOfflineModel, type Scenario } from "../../../src/offline/server.ts";
import { MessagesRequest } from "../../../src/offline/wire.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

const body = (more: Record<string, unknown> = {}) => ({
  model: "m",
  max_tokens: 100,
  messages: [{ role: "user", content: "hi" }],
  ...more,
});

async function answerOf(scenario: Scenario, more: Record<string, unknown> = {}): Promise<Response> {
  const offline = createOfflineModel({ scenario });
  await offline.start();
  closeAtEnd(() => offline.stop());
  const headers = { "content-type": "application/json" };
  return fetch(`${offline.url}/v1/messages`, { method: "POST", headers, body: JSON.stringify(body(more)) });
}

test("an answer with more bytes than letters arrives whole", async () => {
  const content = [{ type: "text" as const, text: "Grüße, 漢字, 😀" }];
  expect(await (await answerOf({ turns: [{ content }] })).json()).toMatchObject({ content });
});

test("of several faults of a stream the first one takes effect", async () => {
  const content = [{ type: "text" as const, text: "hello" }];
  const stream = { errorAfterChunks: 5, truncateAfterChunks: 2 };
  const text = await (await answerOf({ turns: [{ content, stream }] }, { stream: true })).text();
  expect(text.match(/^event: .+$/gm)).toEqual(["event: message_start", "event: ping"]);
});

test("an answer by rule that just fits is whole, and one that is cut ends behind a whole character", () => {
  const request = (max_tokens: number) => MessagesRequest.parse(body({ max_tokens }));
  const input = { input_tokens: 1, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };
  const answered = (text: string, tokens: number) => {
    const content = [{ type: "text" as const, text }];
    const plan = { kind: "answer" as const, content, bounded: true };
    return compose(plan, request(tokens), fingerprint(request(tokens)), input);
  };
  expect(answered("12345678", 2)).toMatchObject({ stop_reason: "end_turn", content: [{ text: "12345678" }] });
  expect(answered("😀😀", 1)).toMatchObject({ stop_reason: "max_tokens", content: [{ text: "😀" }] });
});

test("a prefix lives on when it is read on the way to a later breakpoint", () => {
  let nowMs = 0;
  const cache = createPromptCache({ ttlMs: 100, now: () => nowMs });
  const early = { hash: "a", tokens: 10, blocks: 1, breakpoint: true };
  const late = { hash: "b", tokens: 30, blocks: 2, breakpoint: true };
  cache.charge({ prefixes: [early], inputTokens: 10 });
  nowMs = 80;
  cache.charge({ prefixes: [{ ...early, breakpoint: false }, late], inputTokens: 30 });
  nowMs = 160;
  expect(cache.charge({ prefixes: [early], inputTokens: 10 }).cache_read_input_tokens).toBe(10);
});

test("a marked tool is the tool that it was, and another model has a cache of its own", () => {
  const tool = { name: "glob", input_schema: { type: "object" } };
  const hashes = (more: Record<string, unknown>) =>
    fingerprint(MessagesRequest.parse(body(more))).prefixes.map(({ hash }) => hash);
  const plain = hashes({ tools: [tool] });
  expect(hashes({ tools: [{ ...tool, cache_control: { type: "ephemeral" } }] })).toEqual(plain);
  expect(hashes({ tools: [tool], model: "other" }).filter((hash) => plain.includes(hash))).toEqual([]);
});

test("a call that took the place of another leaves one place, and no more", async () => {
  const semaphore = createSemaphore(1);
  const leave = await semaphore.enter();
  const second = semaphore.enter();
  leave();
  await second;
  let isIn = false;
  void semaphore.enter().then(() => {
    isIn = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(isIn).toBe(false);
});
