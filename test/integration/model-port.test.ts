import { createServer } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { afterEach, describe, expect, test, vi } from "vitest";
import { PRICES } from "../../src/shared/protocol/pricing.ts";
import type { ModelOutcome } from "../../src/worker/model/model.ts";
import { latch } from "../helpers/latch.ts";
import { until } from "../helpers/until.ts";
import {
  answer,
  ask,
  block,
  connect,
  event,
  messageEnd,
  messageStart,
  refuse,
  startProvider,
  stream,
  textBlock,
  toolBlock,
} from "../unit/worker/model/scripted-provider.ts";

const forever = () => new AbortController().signal;
const eventLoopTurn = () => new Promise((resolve) => setImmediate(resolve));

async function outcomeOf(body: string): Promise<ModelOutcome> {
  const provider = await startProvider((response) => stream(response, body));
  return connect(provider).call(ask(), { signal: forever() });
}

function turnOf(outcome: ModelOutcome) {
  if (outcome.status !== "turn") expect.fail(`expected a turn, got ${JSON.stringify(outcome)}`);
  return outcome.turn;
}

function failureOf(outcome: ModelOutcome) {
  if (outcome.status !== "failed") expect.fail(`expected a failure, got ${JSON.stringify(outcome)}`);
  return outcome.failure;
}

describe("an answer", () => {
  test("comes back as a turn with its text, stop reason, model and split usage", async () => {
    expect(await outcomeOf(messageStart() + textBlock(0, "hel", "lo") + messageEnd())).toEqual({
      status: "turn",
      turn: {
        content: [{ type: "text", text: "hello" }],
        stopReason: "end_turn",
        model: "claude-test-20260101",
        usage: {
          input_tokens: 10,
          output_tokens: 7,
          cache_read_input_tokens: 0,
          cache_creation_input_tokens: 4,
        },
      },
    });
  });

  test("streams its text to the listener, whose exceptions cost nothing", async () => {
    const provider = await startProvider((response) =>
      stream(response, messageStart() + textBlock(0, "a", "b", "c") + messageEnd()),
    );
    const heard: string[] = [];
    const outcome = await connect(provider).call(ask(), {
      signal: forever(),
      onText: (delta) => {
        heard.push(delta);
        throw new TypeError("listener broke");
      },
    });
    expect(heard).toEqual(["a", "b", "c"]);
    expect(turnOf(outcome).content).toEqual([{ type: "text", text: "abc" }]);
  });

  test("is not even asked for when the call may not begin any more", async () => {
    const provider = await startProvider((response) => stream(response, messageStart() + messageEnd()));
    const model = connect(provider);
    expect(await model.call(ask(), { signal: forever(), mayBegin: () => false })).toEqual({
      status: "aborted",
    });
    expect(provider.received).toEqual([]);
    const outcome = await model.call(ask(), { signal: forever(), mayBegin: () => true });
    expect(outcome.status).toBe("turn");
    expect(provider.received).toHaveLength(1);
  });

  test("arrives whole when it trickles in byte by byte, pings between", async () => {
    const body = Buffer.from(messageStart() + event("ping") + textBlock(0, "grüß Gott, 世界") + messageEnd());
    const provider = await startProvider((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const next = (at: number): void => {
        if (at === body.length) response.end();
        else response.write(body.subarray(at, at + 1), () => setImmediate(next, at + 1));
      };
      next(0);
    });
    const outcome = await connect(provider, { idleTimeoutMs: 2_000 }).call(ask(), { signal: forever() });
    expect(turnOf(outcome).content).toEqual([{ type: "text", text: "grüß Gott, 世界" }]);
  });

  test("keeps thinking blocks, signatures, citations and unknown blocks verbatim, and sends them back so", async () => {
    const redacted = { type: "redacted_thinking", data: "opaque==" };
    const future = { type: "block_of_tomorrow", payload: { deep: [1, null, "x"] } };
    const citation = { type: "char_location", cited_text: "c", document_index: 0 };
    const provider = await startProvider((response) =>
      stream(
        response,
        messageStart() +
          block(
            0,
            { type: "thinking", thinking: "", signature: "" },
            { type: "thinking_delta", thinking: "let me " },
            { type: "thinking_delta", thinking: "see" },
            { type: "signature_delta", signature: "c2ln+/=" },
          ) +
          block(1, redacted) +
          block(
            2,
            { type: "text", text: "", citations: null },
            { type: "text_delta", text: "t" },
            { type: "citations_delta", citation },
          ) +
          block(3, future) +
          messageEnd(),
      ),
    );
    const model = connect(provider);
    const { content } = turnOf(await model.call(ask(), { signal: forever() }));
    expect(content).toEqual([
      { type: "thinking", thinking: "let me see", signature: "c2ln+/=" },
      redacted,
      { type: "text", text: "t", citations: [citation] },
      future,
    ]);
    const messages = [...ask().messages, { role: "assistant" as const, content }, ...ask().messages];
    await model.call(ask({ messages }), { signal: forever() });
    expect(provider.received[1]?.json?.messages).toEqual([expect.anything(), ...messages.slice(1)]);
  });

  test("brings tool calls with their input parsed, an input without deltas included", async () => {
    const { content, stopReason } = turnOf(
      await outcomeOf(
        messageStart() +
          toolBlock(0, '{"pat', 'tern": "a\\"b", "n": [1]}') +
          toolBlock(1) +
          block(2, {
            type: "tool_use",
            id: "toolu_2",
            name: "glob",
            input: { whole: true },
            caller: { type: "direct" },
          }) +
          messageEnd("tool_use"),
      ),
    );
    expect(stopReason).toBe("tool_use");
    expect(content).toEqual([
      { type: "tool_use", id: "toolu_0", name: "grep", input: { pattern: 'a"b', n: [1] } },
      { type: "tool_use", id: "toolu_1", name: "grep", input: {} },
      { type: "tool_use", id: "toolu_2", name: "glob", input: { whole: true }, caller: { type: "direct" } },
    ]);
  });

  test.each([
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "stop_sequence",
    "a_reason_of_tomorrow",
  ])("passes the stop reason %s through", async (reason) => {
    expect(turnOf(await outcomeOf(messageStart() + textBlock(0, "x") + messageEnd(reason))).stopReason).toBe(
      reason,
    );
  });

  test("may be empty", async () => {
    expect(turnOf(await outcomeOf(messageStart() + messageEnd())).content).toEqual([]);
  });

  test("that was cut off inside a tool call keeps the call with an empty input", async () => {
    const turn = turnOf(
      await outcomeOf(messageStart() + toolBlock(0, '{"path": "a.t') + messageEnd("max_tokens")),
    );
    expect(turn.stopReason).toBe("max_tokens");
    expect(turn.content).toEqual([{ type: "tool_use", id: "toolu_0", name: "grep", input: {} }]);
  });

  test("is kept when the server leaves the connection open after the end", async () => {
    const provider = await startProvider((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(answer("done"));
    });
    const outcome = await connect(provider).call(ask(), { signal: forever() });
    expect(turnOf(outcome).content).toEqual([{ type: "text", text: "done" }]);
    await until(() => provider.sockets.size === 0, { what: "the open socket to be given up" });
  });
});

describe("an unusable answer is a retryable invalid_response", () => {
  test.each([
    [
      "invalid JSON in tool input deltas",
      messageStart() + toolBlock(0, '{"a": ', "oops}") + messageEnd("tool_use"),
    ],
    [
      "a truncated tool input on tool_use",
      messageStart() + toolBlock(0, '{"a": "b') + messageEnd("tool_use"),
    ],
    ["an array as tool input", messageStart() + toolBlock(0, "[1]") + messageEnd("tool_use")],
    ["null as tool input", messageStart() + toolBlock(0, "null") + messageEnd("tool_use")],
    [
      "a tool call without id",
      messageStart() + block(0, { type: "tool_use", name: "x", input: {} }) + messageEnd(),
    ],
    ["no stop reason", messageStart() + textBlock(0, "x") + messageEnd(null)],
    [
      "a delta nobody knows",
      messageStart() + block(0, { type: "text", text: "" }, { type: "odd_delta" }) + messageEnd(),
    ],
    [
      "a tool input that is no text",
      messageStart() +
        block(
          0,
          { type: "tool_use", id: "t", name: "x", input: {} },
          { type: "input_json_delta", partial_json: { pattern: "*" } },
        ) +
        messageEnd("tool_use"),
    ],
    ["an event that is not JSON", `${messageStart()}event: content_block_start\ndata: {oops\n\n`],
    ["no message at all", event("ping")],
    ["an empty body", ""],
    ["content before the start", textBlock(0, "x") + messageEnd()],
  ])("%s", async (_, body) => {
    expect(failureOf(await outcomeOf(body))).toMatchObject({ kind: "invalid_response", retryable: true });
  });

  test("a JSON message instead of a stream", async () => {
    const provider = await startProvider((response) => {
      response.writeHead(200, { "content-type": "application/json" }).end('{"type":"message","content":[]}');
    });
    const failure = failureOf(await connect(provider).call(ask(), { signal: forever() }));
    expect(failure).toMatchObject({ kind: "invalid_response", retryable: true });
  });
});

test("a status that HTTP does not know ends as invalid_response and gives its socket up", async () => {
  const provider = await startProvider((_, { socket }) => {
    socket.write("HTTP/1.1 999 Request denied\r\ncontent-length: 3\r\n\r\n");
  });
  const outcome = await connect(provider, { timeoutMs: 1_000 }).call(ask(), { signal: forever() });
  expect(failureOf(outcome)).toEqual({
    kind: "invalid_response",
    retryable: true,
    message: "the server answered with HTTP status 999",
  });
  await until(() => provider.sockets.size === 0);
});

describe("a refused call", () => {
  const inAnHour = new Date(Date.UTC(2031, 0, 1, 11)).toUTCString();
  const serverDate = new Date(Date.UTC(2031, 0, 1, 10)).toUTCString();
  test.each([
    [
      400,
      "invalid_request_error",
      "messages: roles must alternate",
      {},
      { kind: "invalid_request", retryable: false },
    ],
    [
      400,
      "invalid_request_error",
      "prompt is too long: 210000 tokens > 200000 maximum",
      {},
      { kind: "context_window", retryable: false },
    ],
    [
      400,
      "invalid_request_error",
      "Your credit balance is too low to access the API",
      {},
      { kind: "billing", retryable: false },
    ],
    [401, "authentication_error", "invalid x-api-key", {}, { kind: "authentication", retryable: false }],
    [402, "billing_error", "no credit", {}, { kind: "billing", retryable: false }],
    [403, "permission_error", "not allowed", {}, { kind: "permission", retryable: false }],
    [404, "not_found_error", "model: claude-typo", {}, { kind: "not_found", retryable: false }],
    [413, "request_too_large", "too large", {}, { kind: "too_large", retryable: false }],
    [408, "timeout_error", "request timeout", {}, { kind: "timeout", retryable: true }],
    [409, "conflict_error", "conflict", {}, { kind: "server_error", retryable: true }],
    [
      429,
      "rate_limit_error",
      "slow down",
      { "retry-after": "1" },
      { kind: "rate_limited", retryable: true, retryAfterMs: 1_000 },
    ],
    [
      429,
      "rate_limit_error",
      "slow down",
      { "retry-after": "600" },
      { kind: "rate_limited", retryable: true, retryAfterMs: 600_000 },
    ],
    [
      429,
      "rate_limit_error",
      "slow down",
      { date: serverDate, "retry-after": inAnHour },
      { kind: "rate_limited", retryable: true, retryAfterMs: 3_600_000 },
    ],
    [
      429,
      "rate_limit_error",
      "slow down",
      { "retry-after": "soon-ish" },
      { kind: "rate_limited", retryable: true },
    ],
    [
      429,
      "rate_limit_error",
      "slow down",
      { "retry-after-ms": "1500", "retry-after": "9" },
      { kind: "rate_limited", retryable: true, retryAfterMs: 1_500 },
    ],
    [500, "api_error", "internal", {}, { kind: "server_error", retryable: true }],
    [503, "api_error", "internal", {}, { kind: "server_error", retryable: true }],
    [504, "timeout_error", "gateway", {}, { kind: "timeout", retryable: true }],
    [529, "overloaded_error", "Overloaded", {}, { kind: "overloaded", retryable: true }],
  ])("with %i %s (%s, %j) is classified", async (status, type, message, headers, expected) => {
    const provider = await startProvider((response) => refuse(response, status, type, message, headers));
    const failure = failureOf(await connect(provider).call(ask(), { signal: forever() }));
    const { message: said, ...rest } = failure;
    expect(rest).toEqual({ ...expected, httpStatus: status });
    expect(said).toBe(`${message} [req_42]`);
    expect(provider.received).toHaveLength(1);
  });

  test("never repeats the key it was made with, wherever the server puts it", async () => {
    const provider = await startProvider((response, { headers }) =>
      refuse(
        response,
        401,
        "authentication_error",
        `bad header ${headers.authorization}, key c4n4ry/with+odd=chars`,
      ),
    );
    const model = connect(provider, { apiKey: "c4n4ry/with+odd=chars" });
    const failure = failureOf(await model.call(ask(), { signal: forever() }));
    expect(failure.kind).toBe("authentication");
    expect(JSON.stringify(failure)).not.toContain("c4n4ry");
  });

  test("is described in one bounded line even when the body is a page of markup", async () => {
    const provider = await startProvider((response) => {
      response
        .writeHead(502, { "content-type": "text/html" })
        .end(`<html>\n${"<p>Bad\tGateway</p>\n".repeat(1_000)}`);
    });
    const failure = failureOf(await connect(provider).call(ask(), { signal: forever() }));
    expect(failure).toMatchObject({ kind: "server_error", retryable: true, httpStatus: 502 });
    expect(failure.message.length).toBeLessThanOrEqual(500);
    expect(failure.message).not.toMatch(/[\n\t]/);
  });
});

describe("a broken wire", () => {
  test("refusing the connection is a retryable network failure", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const address = server.address();
    await new Promise((resolve) => server.close(resolve));
    const port = typeof address === "object" ? address?.port : 0;
    const model = connect({ baseUrl: `http://127.0.0.1:${port}` });
    expect(failureOf(await model.call(ask(), { signal: forever() }))).toMatchObject({
      kind: "network",
      retryable: true,
    });
  });

  test.each([
    ["before the headers", ""],
    ["in the middle of the message", messageStart() + textBlock(0, "half")],
  ])("reset %s is a retryable network failure", async (_, sent) => {
    const provider = await startProvider((response, { socket }) => {
      if (sent === "") return void socket.resetAndDestroy();
      response
        .writeHead(200, { "content-type": "text/event-stream" })
        .write(sent, () => socket.resetAndDestroy());
    });
    const failure = failureOf(await connect(provider).call(ask(), { signal: forever() }));
    expect(failure).toMatchObject({ kind: "network", retryable: true });
  });

  test("ending cleanly in the middle of the message is a retryable network failure that names what was bought", async () => {
    const outcome = await outcomeOf(messageStart() + textBlock(0, "half"));
    expect(failureOf(outcome)).toMatchObject({ kind: "network", retryable: true });
    expect(outcome).toMatchObject({ usage: { input_tokens: 10, cache_creation_input_tokens: 4 } });
  });

  test.each([
    ["overloaded_error", "overloaded", true],
    ["rate_limit_error", "rate_limited", true],
    ["api_error", "server_error", true],
    ["something_new", "server_error", true],
    ["invalid_request_error", "invalid_request", false],
  ])("%s inside a stream after a 200 is %s", async (type, kind, retryable) => {
    const outcome = await outcomeOf(
      messageStart() + textBlock(0, "half") + event("error", { error: { type, message: "sorry" } }),
    );
    expect(failureOf(outcome)).toEqual({ kind, retryable, message: "sorry" });
  });

  test("a stream that stalls ends as a timeout and gives its socket up", async () => {
    const provider = await startProvider((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(messageStart());
    });
    const outcome = await connect(provider, { idleTimeoutMs: 60 }).call(ask(), { signal: forever() });
    expect(failureOf(outcome)).toMatchObject({ kind: "timeout", retryable: true });
    await until(() => provider.sockets.size === 0);
  });

  test("an error response whose body stalls ends too, with its status kept", async () => {
    const provider = await startProvider((response) => {
      response.writeHead(500, { "content-type": "application/json" }).write("{");
    });
    const outcome = await connect(provider, { idleTimeoutMs: 60 }).call(ask(), { signal: forever() });
    expect(failureOf(outcome)).toMatchObject({ kind: "server_error", retryable: true, httpStatus: 500 });
  });

  test("a call that takes longer than its limit ends as a timeout although bytes keep coming", async () => {
    const provider = await startProvider((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(messageStart());
      const beat = setInterval(() => response.write(event("ping")), 10);
      response.on("close", () => clearInterval(beat));
    });
    const outcome = await connect(provider, { timeoutMs: 150 }).call(ask(), { signal: forever() });
    expect(failureOf(outcome)).toMatchObject({ kind: "timeout", retryable: true });
    await until(() => provider.sockets.size === 0);
  });

  test("a server that never answers ends as a timeout", async () => {
    const provider = await startProvider(() => {});
    const outcome = await connect(provider, { timeoutMs: 80 }).call(ask(), { signal: forever() });
    expect(failureOf(outcome)).toMatchObject({ kind: "timeout", retryable: true });
  });
});

describe("an aborted call", () => {
  test("in the middle of the stream ends at once as aborted, hears no more, and gives its socket up", async () => {
    const provider = await startProvider((response) => {
      response
        .writeHead(200, { "content-type": "text/event-stream" })
        .write(messageStart() + textBlock(0, "a", "b"));
    });
    const abort = new AbortController();
    const heard: string[] = [];
    const outcome = await connect(provider).call(ask(), {
      signal: abort.signal,
      onText: (delta) => {
        heard.push(delta);
        abort.abort();
      },
    });
    expect(outcome).toMatchObject({ status: "aborted", usage: { input_tokens: 10 } });
    expect(heard).toEqual(["a"]);
    await until(() => provider.sockets.size === 0);
  });

  test("before the headers ends at once as aborted and gives its socket up", async () => {
    const arrived = latch();
    const provider = await startProvider(() => arrived.open());
    const abort = new AbortController();
    const outcome = connect(provider).call(ask(), { signal: abort.signal });
    await arrived.opened;
    abort.abort(new Error("any reason"));
    expect(await outcome).toEqual({ status: "aborted" });
    await until(() => provider.sockets.size === 0);
  });

  test("before it starts sends nothing", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    const outcome = await connect(provider).call(ask(), { signal: AbortSignal.abort() });
    expect(outcome).toEqual({ status: "aborted" });
    expect(provider.connections).toBe(0);
  });

  test("leaves no listener on the caller's signal", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    const model = connect(provider);
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, "addEventListener");
    const removed = vi.spyOn(signal, "removeEventListener");
    for (let call = 0; call < 12; call++) turnOf(await model.call(ask(), { signal }));
    expect(added.mock.calls.length).toBe(12);
    expect(removed.mock.calls.length).toBe(12);
  });

  test("by stop ends as aborted; stop is idempotent and later calls are aborted", async () => {
    const arrived = latch();
    const provider = await startProvider(() => arrived.open());
    const model = connect(provider);
    const outcome = model.call(ask(), { signal: forever() });
    await arrived.opened;
    await Promise.all([model.stop(), model.stop()]);
    expect(await outcome).toEqual({ status: "aborted" });
    expect(await model.call(ask(), { signal: forever() })).toEqual({ status: "aborted" });
    await until(() => provider.sockets.size === 0);
  });
});

describe("connections", () => {
  test("sequential calls share one socket, failed ones with a complete body included", async () => {
    let served = 0;
    const provider = await startProvider((response) => {
      served += 1;
      if (served % 3 === 0) refuse(response, 529, "overloaded_error", "Overloaded");
      else stream(response, answer());
    });
    const model = connect(provider);
    for (let call = 0; call < 12; call++) {
      await model.call(ask(), { signal: forever() });
      await eventLoopTurn(); // undici offers a socket again one turn after its response
    }
    expect(provider.received).toHaveLength(12);
    expect(provider.connections).toBe(1);
  });

  test("parallel calls run at the same time, each on a socket of its own", async () => {
    const waiting: (() => void)[] = [];
    const provider = await startProvider((response) => {
      waiting.push(() => stream(response, answer()));
      if (waiting.length === 20) for (const go of waiting) go();
    });
    const model = connect(provider);
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () => model.call(ask(), { signal: forever() })),
    );
    expect(outcomes.every(({ status }) => status === "turn")).toBe(true);
    expect(provider.connections).toBe(20);
  });

  test("a redirect is not followed", async () => {
    const elsewhere = await startProvider((response) => stream(response, answer()));
    const provider = await startProvider((response) => {
      response.writeHead(307, { location: `${elsewhere.baseUrl}/v1/messages` }).end();
    });
    const failure = failureOf(await connect(provider).call(ask(), { signal: forever() }));
    expect(failure).toMatchObject({ kind: "invalid_request", retryable: false, httpStatus: 307 });
    expect(elsewhere.connections).toBe(0);
  });
});

describe("what is sent", () => {
  const tools = [
    {
      name: "grep",
      description: "Searches.",
      input_schema: { type: "object", properties: { q: { type: "string" } } },
    },
    { name: "glob", description: "Lists.", input_schema: { type: "object" } },
  ];
  const cached = { type: "ephemeral" };

  test("is a streaming request with breakpoints on the shared prefix and on the conversation", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    await connect(provider).call(ask({ tools, idempotencyKey: "run-1/3" }), { signal: forever() });
    const [request] = provider.received;
    expect(request?.url).toBe("/v1/messages");
    expect(request?.headers["idempotency-key"]).toBe("run-1/3");
    expect(request?.json).toEqual({
      model: "claude-test",
      max_tokens: 100,
      tools,
      tool_choice: { type: "auto" },
      system: [{ type: "text", text: "You are a test.", cache_control: cached }],
      messages: ask().messages,
      cache_control: cached,
      stream: true,
    });
  });

  test("is byte-identical for equal requests, and the hand-back call keeps the tools", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    const model = connect(provider);
    await model.call(ask({ tools }), { signal: forever() });
    await model.call(ask({ tools: structuredClone(tools) }), { signal: forever() });
    await model.call(ask({ tools, toolChoice: "none" }), { signal: forever() });
    const [first, second, handBack] = provider.received;
    expect(second?.text).toBe(first?.text);
    expect(handBack?.json).toEqual({ ...first?.json, tool_choice: { type: "none" } });
  });

  describe("whatever the environment says", () => {
    afterEach(() => vi.unstubAllEnvs());

    test("goes to the given host with the given key and no other header or credential", async () => {
      const trap = await startProvider((response) => stream(response, answer("trap")));
      vi.stubEnv("ANTHROPIC_API_KEY", "sk-ant-env-canary");
      vi.stubEnv("ANTHROPIC_AUTH_TOKEN", "canary-token");
      vi.stubEnv("ANTHROPIC_BASE_URL", trap.baseUrl);
      vi.stubEnv("ANTHROPIC_PROFILE", "canary-profile");
      vi.stubEnv("ANTHROPIC_CONFIG_DIR", "/nonexistent/canary");
      vi.stubEnv("ANTHROPIC_LOG", "debug");
      vi.stubEnv(
        "ANTHROPIC_CUSTOM_HEADERS",
        "Authorization: Bearer canary\nX-Canary: canary\nx-api-key: canary\nanthropic-version: canary\nanthropic-beta: canary",
      );
      const provider = await startProvider((response) => stream(response, answer()));
      const outcome = await connect(provider, { apiKey: "sk-given" }).call(ask(), { signal: forever() });
      expect(turnOf(outcome).content).toEqual([{ type: "text", text: "hello" }]);
      expect(trap.connections).toBe(0);
      const headers = provider.received[0]?.headers;
      expect(headers?.authorization).toBe("Bearer sk-given");
      expect(JSON.stringify(headers)).not.toContain("canary");
    });
  });

  test("names the API version that the SDK itself would send", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    await connect(provider).call(ask(), { signal: forever() });
    const versions: (string | null)[] = [];
    const sdk = new Anthropic({
      apiKey: "k",
      maxRetries: 0,
      fetch: async (_, init) => {
        versions.push(new Headers(init?.headers).get("anthropic-version"));
        return new Response("{}", { headers: { "content-type": "application/json" } });
      },
    });
    await sdk.messages.countTokens({ model: "m", messages: [] });
    expect(provider.received[0]?.headers["anthropic-version"]).toBe(versions[0]);
  });
});

describe("the console", () => {
  afterEach(() => vi.restoreAllMocks());

  test("stays untouched, by deprecated models and malformed streams too", async () => {
    const methods = (["log", "info", "warn", "error", "debug"] as const).map((name) =>
      vi.spyOn(console, name),
    );
    const provider = await startProvider((response) =>
      stream(response, `${messageStart()}event: x\ndata: {oops\n\n`),
    );
    const model = connect(provider);
    const ids = ["claude-sonnet-4-5-20250929", ...Object.keys(PRICES)];
    for (const id of ids) failureOf(await model.call(ask({ model: id }), { signal: forever() }));
    expect(provider.received.map(({ json }) => json?.model)).toEqual(ids);
    for (const method of methods) expect(method).not.toHaveBeenCalled();
  });
});
