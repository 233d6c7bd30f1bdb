/** What a client and the ledger get of a call: statuses, usage, and what the request asked for. */
import { expect, test } from "vitest";
import { z } from "zod";
import {
  createOfflineModel,
  type OfflineModel,
  type OfflineModelOptions,
} from "../../../src/offline/server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";

async function open(options: OfflineModelOptions = {}): Promise<OfflineModel> {
  const offline = createOfflineModel(options);
  await offline.start();
  closeAtEnd(() => offline.stop());
  return offline;
}

const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const bodyOf = (more: Record<string, unknown> = {}) => ({
  model: "m",
  max_tokens: 100,
  messages: [{ role: "user", content: "hi" }],
  ...more,
});

function post(
  { url }: OfflineModel,
  body: unknown,
  { path = "/v1/messages", ...init }: RequestInit & { path?: string } = {},
): Promise<Response> {
  return fetch(url + path, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...init,
  });
}

const wordsOf = async (response: Response) =>
  ((await response.json()) as { content: { text?: string }[] }).content.map(({ text }) => text).join();

test.each([
  [400, "invalid_request_error"],
  [401, "authentication_error"],
  [402, "billing_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [408, "timeout_error"],
  [409, "conflict_error"],
  [413, "request_too_large"],
  [418, "invalid_request_error"],
  [429, "rate_limit_error"],
  [500, "api_error"],
  [503, "overloaded_error"],
  [504, "timeout_error"],
  [529, "overloaded_error"],
  [599, "api_error"],
])("a scripted status %i has the type %s", async (status, type) => {
  const offline = await open({ scenario: { turns: [{ error: { status } }] } });
  const answer = await post(offline, bodyOf());
  expect(answer.status).toBe(status);
  expect(await answer.json()).toMatchObject({ error: { type, message: `Scripted ${type}.` } });
});

test("a scripted error says what the script says", async () => {
  const error = { status: 400, type: "odd_error", message: "Odd." };
  const offline = await open({ scenario: { turns: [{ error }] } });
  const answer = await post(offline, bodyOf());
  expect(await answer.json()).toMatchObject({ error: { type: "odd_error", message: "Odd." } });
});

test.each([
  [undefined, 529, "overloaded_error"],
  ["not_found_error", 404, "not_found_error"],
  ["odd_error", 500, "odd_error"],
])(
  "an error amid a stream (%s) is, without a stream, an answer with status %i, and stands so in the ledger",
  async (errorType, status, type) => {
    const stream = { errorAfterChunks: 2, ...(errorType && { errorType }) };
    const offline = await open({ scenario: { turns: [{ ...say("x"), stream }] } });
    const answer = await post(offline, bodyOf());
    expect(answer.status).toBe(status);
    expect(await answer.json()).toMatchObject({ error: { type } });
    expect(offline.ledger).toMatchObject([{ status: "error", http_status: status, error_type: type }]);
  },
);

test("a connection that is reset has no status in the ledger, whether the script resets the call or its stream", async () => {
  const turn = { ...say("x"), failures: [{ reset: true as const }], stream: { resetAfterChunks: 2 } };
  const offline = await open({ scenario: { turns: [turn] } });
  await expect(post(offline, bodyOf())).rejects.toThrow();
  await expect(post(offline, bodyOf())).rejects.toThrow();
  expect(offline.ledger).toMatchObject([
    { status: "error", http_status: 0, error_type: "reset" },
    { status: "error", http_status: 0, error_type: "reset" },
  ]);
});

test("a call whose client left while it waited for its place was not bought", async () => {
  const slow = { match: { user: "slow" }, turns: [{ ...say("x"), latencyMs: 300 }] };
  const offline = await open({ parallel: 1, scenario: [slow, { turns: [say("y")] }] });
  const first = post(offline, bodyOf({ messages: [{ role: "user", content: "slow" }] }));
  await until(() => offline.inFlight === 1);
  const leaving = new AbortController();
  const second = post(offline, bodyOf(), { signal: leaving.signal });
  await until(() => offline.inFlight === 2);
  expect(offline.ledger).toEqual([]);
  leaving.abort();
  await expect(second).rejects.toThrow();
  expect((await first).status).toBe(200);
  await until(() => offline.ledger.length === 2);
  expect(offline.ledger).toMatchObject([
    { status: "served", usage: { output_tokens: 1 } },
    { status: "aborted", usage: null, message_id: null },
  ]);
});

test("the ledger has what the request asked for", async () => {
  const offline = await open();
  const tools = ["glob", "grep"].map((name) => ({ name, input_schema: { type: "object" } }));
  const format = { type: "json_schema", schema: { type: "object" } };
  const more = { tools, tool_choice: { type: "any" }, output_config: { format }, max_tokens: 77 };
  await post(offline, bodyOf(more), { headers: { "idempotency-key": "key-1" } });
  await post(offline, bodyOf());
  const plain = { idempotency_key: null, tool_choice: "auto", tools: [], max_tokens: 100 };
  const asked = { idempotency_key: "key-1", tool_choice: "any", tools: ["glob", "grep"], max_tokens: 77 };
  expect(offline.ledger).toMatchObject([{ ...asked, output_format: true, model: "m", messages: 1 }, plain]);
  expect(offline.ledger[1]).not.toHaveProperty("output_format");
});

test("an answer by rule keeps to max_tokens, and the path may have a query", async () => {
  const offline = await open();
  const answer = await post(offline, bodyOf({ max_tokens: 2 }), { path: "/v1/messages?beta=true" });
  expect(await answer.json()).toMatchObject({ stop_reason: "max_tokens", usage: { output_tokens: 2 } });
});

test("an enforced schema shapes the last answer, by the whole schema of the instructions", async () => {
  const offline = await open();
  const schema = { type: "object", properties: { a: { type: "string" } }, required: ["a"] };
  const whole = { ...schema, properties: { a: { type: "string", maxLength: 3 } } };
  const output_config = { format: { type: "json_schema", schema } };
  const said = (content: unknown) => [
    { role: "user", content: "hi" },
    { role: "assistant", content },
  ];
  const shaped = async (more: Record<string, unknown>) =>
    z
      .object({ a: z.string() })
      .parse(JSON.parse(await wordsOf(await post(offline, bodyOf({ output_config, ...more })))));
  const told = `Be brief.\nOutput schema: fit it.\n${JSON.stringify(whole)}`;
  const last = { role: "user", content: "again" };
  expect(await shaped({ messages: [...said("words"), last] })).toEqual({ a: "words" });
  expect(await shaped({ messages: [...said("words"), last], system: told })).toEqual({ a: "wor" });
  const tools = [{ name: "glob", input_schema: { type: "object" } }];
  const called = said([
    { type: "text", text: "looking" },
    { type: "tool_use", id: "t", name: "glob", input: {} },
  ]);
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "x" }] };
  const byRule = await shaped({ messages: [...called, result], tools, tool_choice: { type: "none" } });
  expect(byRule.a).not.toContain("looking");
});

test("a body of exactly 32 MB is read; tokens of a longer one are not counted", async () => {
  const offline = await open();
  const most = 32 * 1024 * 1024;
  expect((await post(offline, JSON.stringify(bodyOf()).padEnd(most))).status).toBe(200);
  const path = "/v1/messages/count_tokens";
  expect((await post(offline, " ".repeat(most + 1), { path })).status).toBe(413);
});

test("a model is known by its id, however that is written in the address", async () => {
  const offline = await open();
  const model = await fetch(`${offline.url}/v1/models/acme%2Fsmall`);
  expect(await model.json()).toMatchObject({ type: "model", id: "acme/small" });
});
