import { createServer } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { afterEach, describe, expect, test, vi } from "vitest";
import { PRICES } from "../../src/shared/protocol/usage.ts";
import type { CallOutcome } from "../../src/worker/model/model.ts";
import { NO_TOOL_CHOICE } from "../../src/worker/model/request.ts";
import { handClock } from "../helpers/hand-clock.ts";
import { latch } from "../helpers/latch.ts";
import { until } from "../helpers/until.ts";
import {
  answer,
  ask,
  block,
  connect,
  event,
  hold,
  messageBody,
  messageEnd,
  messageStart,
  QUESTION,
  refuse,
  send,
  startProvider,
  stream,
  textBlock,
  toolBlock,
} from "../unit/worker/model/scripted-provider.ts";

const eventLoopTurn = () => new Promise((resolve) => setImmediate(resolve));

async function outcomeOf(body: string): Promise<CallOutcome> {
  const provider = await startProvider((response) => stream(response, body));
  return connect(provider).call(ask(), hold());
}

function answerOf(outcome: CallOutcome) {
  if (outcome.status !== "answer") expect.fail(`expected an answer, got ${JSON.stringify(outcome)}`);
  return outcome.answer;
}

function failureOf(outcome: CallOutcome) {
  if (outcome.status !== "failed") expect.fail(`expected a failure, got ${JSON.stringify(outcome)}`);
  return outcome.failure;
}

describe("an answer", () => {
  test("comes back with its text, stop reason, model and split usage", async () => {
    expect(await outcomeOf(messageStart() + textBlock(0, "hel", "lo") + messageEnd())).toEqual({
      status: "answer",
      answer: {
        content: [{ type: "text", text: "hello" }],
        contentJson: '[{"type":"text","text":"hello"}]',
        refusedCalls: new Map(),
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
    const outcome = await connect(provider).call(
      ask(),
      hold({
        onText: (text) => {
          heard.push(text);
          throw new TypeError("listener broke");
        },
      }),
    );
    expect(heard.join("")).toBe("abc");
    expect(answerOf(outcome).content).toEqual([{ type: "text", text: "abc" }]);
  });

  test("is not even asked for when the call may not begin any more", async () => {
    const provider = await startProvider((response) => stream(response, messageStart() + messageEnd()));
    const model = connect(provider);
    expect(await model.call(ask(), hold({ mayBegin: () => false }))).toEqual({
      status: "aborted",
    });
    expect(provider.received).toEqual([]);
    const outcome = await model.call(ask(), hold());
    expect(outcome.status).toBe("answer");
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
    const outcome = await connect(provider, { idleTimeoutMs: 2_000 }).call(ask(), hold());
    expect(answerOf(outcome).content).toEqual([{ type: "text", text: "grüß Gott, 世界" }]);
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
    const { content } = answerOf(await model.call(ask(), hold()));
    expect(content).toEqual([
      { type: "thinking", thinking: "let me see", signature: "c2ln+/=" },
      redacted,
      { type: "text", text: "t", citations: [citation] },
      future,
    ]);
    const messages = [QUESTION, { role: "assistant" as const, content: [...content] }, QUESTION];
    await model.call(ask({ messages }), hold());
    expect(provider.received[1]?.json?.messages).toEqual(messages);
  });

  test("brings tool calls with their input parsed, an input without deltas included", async () => {
    const { content, stopReason } = answerOf(
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
    expect(
      answerOf(await outcomeOf(messageStart() + textBlock(0, "x") + messageEnd(reason))).stopReason,
    ).toBe(reason);
  });

  test("may be empty", async () => {
    expect(answerOf(await outcomeOf(messageStart() + messageEnd())).content).toEqual([]);
  });

  test("that was cut off inside a tool call keeps the call with an empty input", async () => {
    const answer = answerOf(
      await outcomeOf(messageStart() + toolBlock(0, '{"path": "a.t') + messageEnd("max_tokens")),
    );
    expect(answer.stopReason).toBe("max_tokens");
    expect(answer.content).toEqual([{ type: "tool_use", id: "toolu_0", name: "grep", input: {} }]);
    expect(answer.refusedCalls.get("toolu_0")).toContain("cut off");
  });

  test("is kept when the server leaves the connection open after the end", async () => {
    const provider = await startProvider((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(answer("done"));
    });
    const outcome = await connect(provider).call(ask(), hold());
    expect(answerOf(outcome).content).toEqual([{ type: "text", text: "done" }]);
    await until(() => provider.sockets.size === 0, { what: "the open socket to be given up" });
  });
});

describe("an answer that is not streamed", () => {
  const unstreamed = ask({ stream: false });

  test("is the same answer", async () => {
    const provider = await startProvider((response, { json }) => {
      if (json?.stream === true) stream(response, messageStart() + textBlock(0, "grüß") + messageEnd());
      else send(response, [{ type: "text", text: "grüß" }]);
    });
    const model = connect(provider);
    const whole = answerOf(await model.call(unstreamed, hold()));
    expect(whole).toEqual(answerOf(await model.call(ask(), hold())));
    expect(provider.received.map(({ json }) => json?.stream)).toEqual([undefined, true]);
  });

  test("is streamed all the same where it may take over ten minutes", async () => {
    const provider = await startProvider((response, { json }) => {
      if (json?.stream === true) stream(response, answer());
      else send(response, []);
    });
    const model = connect(provider);
    await model.call(ask({ stream: false, maxTokens: 21_333 }), hold());
    await model.call(ask({ stream: false, maxTokens: 21_334 }), hold());
    expect(provider.received.map(({ json }) => json?.stream)).toEqual([undefined, true]);
  });
});

describe("an unusable answer is a retryable invalid_response", () => {
  test.each([
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
    const outcome = await outcomeOf(body);
    expect(failureOf(outcome)).toMatchObject({ kind: "invalid_response", retryable: true });
    // The provider may have billed it.
    expect(outcome).toHaveProperty("usage");
  });

  test("a JSON message instead of a stream", async () => {
    const provider = await startProvider((response) => {
      response.writeHead(200, { "content-type": "application/json" }).end('{"type":"message","content":[]}');
    });
    const failure = failureOf(await connect(provider).call(ask(), hold()));
    expect(failure).toMatchObject({ kind: "invalid_response", retryable: true });
  });
});

describe("an answer that cannot be used as it is was paid for all the same", () => {
  const usage = { input_tokens: 10, output_tokens: 7, cache_creation_input_tokens: 4 };

  test.each([
    ["invalid JSON in its deltas", toolBlock(0, '{"a": ', "oops}"), "not valid JSON"],
    ["a truncated input", toolBlock(0, '{"a": "b'), "not valid JSON"],
    ["an array as input", toolBlock(0, "[1]"), "must be a JSON object"],
    ["null as input", toolBlock(0, "null"), "must be a JSON object"],
  ])("a call with %s is an answer that refuses it", async (_, call, sentence) => {
    const answer = answerOf(await outcomeOf(messageStart() + call + messageEnd("tool_use")));
    expect(answer.content).toEqual([{ type: "tool_use", id: "toolu_0", name: "grep", input: {} }]);
    expect(answer.refusedCalls.get("toolu_0")).toContain(sentence);
    expect(answer.usage).toMatchObject(usage);
  });

  test.each([[""], [undefined]])("a call with the id %j gets one", async (id) => {
    const call = block(0, { type: "tool_use", id, name: "x", input: {} });
    const answer = answerOf(await outcomeOf(messageStart() + call + messageEnd("tool_use")));
    expect(answer.content).toMatchObject([{ id: "call", name: "x" }]);
    expect(answer.refusedCalls.size).toBe(0);
  });

  test.each([
    ["has no stop reason", messageStart() + textBlock(0, "x") + messageEnd(null)],
    ["has a block without its text", messageStart() + block(0, { type: "text" }) + messageEnd()],
  ])("one that %s says what it cost", async (_, body) => {
    expect(await outcomeOf(body)).toMatchObject({ status: "failed", usage });
  });

  test("one that breaks off, with an error or without, says what it had cost by then", async () => {
    const begun = messageStart() + textBlock(0, "half");
    const error = event("error", { error: { type: "overloaded_error", message: "sorry" } });
    for (const body of [begun, begun + error, `${begun}data: {oops\n\n`])
      expect(await outcomeOf(body)).toMatchObject({ status: "failed", usage: { input_tokens: 10 } });
  });

  test("one that is not streamed and breaks off says that it was bought", async () => {
    const whole = messageBody([{ type: "text", text: "hello" }]);
    const provider = await startProvider((response, { socket }) => {
      response
        .writeHead(200, { "content-type": "application/json", "content-length": 2 * whole.length })
        .write(whole.slice(0, -1), () => socket.resetAndDestroy());
    });
    const outcome = await connect(provider).call(ask({ stream: false }), hold());
    expect(outcome).toMatchObject({ status: "failed", failure: { kind: "network" }, usage });
  });

  test("what is no answer was not paid for", async () => {
    const provider = await startProvider((response) => response.end("<html>Log in</html>"));
    for (const stream of [false, true])
      expect(await connect(provider).call(ask({ stream }), hold())).not.toHaveProperty("usage");
  });
});

test("a status that HTTP does not know ends as invalid_response and gives its socket up", async () => {
  const provider = await startProvider((_, { socket }) => {
    socket.write("HTTP/1.1 999 Request denied\r\ncontent-length: 3\r\n\r\n");
  });
  const outcome = await connect(provider, { timeoutMs: 1_000 }).call(ask(), hold());
  expect(failureOf(outcome)).toEqual({
    kind: "invalid_response",
    retryable: true,
    message: "the server answered with HTTP status 999",
  });
  await until(() => provider.sockets.size === 0);
});

test("a refusal is read whatever bytes its headers are made of", async () => {
  const provider = await startProvider((_, { socket }) => {
    const latin = Buffer.from("HTTP/1.1 429 Busy\r\nx-latin: caf\xe9\r\nx-utf: ", "latin1");
    socket.write(latin);
    socket.write("余额不足\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\n{}");
  });
  const outcome = await connect(provider).call(ask(), hold());
  expect(failureOf(outcome)).toMatchObject({
    kind: "rate_limited",
    retryAfterMs: 7_000,
    httpStatus: 429,
  });
  await until(() => provider.sockets.size === 1);
});

test("a refusal that an early hint announces is what its body says", async () => {
  const body =
    '{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}';
  const provider = await startProvider((_, { socket }) => {
    socket.write("HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n");
    socket.write(`HTTP/1.1 400 Bad Request\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  });
  const outcome = await connect(provider).call(ask(), hold());
  expect(failureOf(outcome)).toMatchObject({ kind: "billing", httpStatus: 400 });
});

test("a refusal whose body does not end is read no further than its sentence may be long", async () => {
  const provider = await startProvider((response) => {
    response.writeHead(500, { "content-type": "application/json" });
    const part = Buffer.alloc(64 * 1024, "x");
    const more = () => {
      while (!response.destroyed && response.write(part));
      response.once("drain", more);
    };
    more();
  });
  // On this clock no time passes, so no time limit ends the call.
  const outcome = await connect(provider, { clock: handClock() }).call(ask(), hold());
  expect(failureOf(outcome)).toMatchObject({ kind: "server_error", httpStatus: 500 });
  await until(() => provider.sockets.size === 0);
});

test("an error event of a gateway that gives it no type is an error all the same", async () => {
  const json = '{"error":{"type":"overloaded_error","message":"Overloaded"}}';
  const outcome = await outcomeOf(`${messageStart()}event: error\ndata: ${json}\n\n`);
  expect(failureOf(outcome)).toMatchObject({ kind: "overloaded", retryable: true });
});

test("an error that nests too deep to be written anew is still what its status says", async () => {
  const deep = `${"[".repeat(30_000)}${"]".repeat(30_000)}`;
  const json = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"more":${deep}}`;
  const refused = await startProvider((response) => {
    response.writeHead(529, { "content-type": "application/json" }).end(json);
  });
  const outcome = await connect(refused).call(ask(), hold());
  expect(failureOf(outcome)).toMatchObject({ kind: "overloaded", retryable: true, message: "Overloaded" });
  const inStream = await outcomeOf(`event: error\ndata: ${json}\n\n`);
  expect(failureOf(inStream)).toMatchObject({ retryable: true });
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
    [413, "request_too_large", "too large", {}, { kind: "context_window", retryable: false }],
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
    const failure = failureOf(await connect(provider).call(ask(), hold()));
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
    const failure = failureOf(await model.call(ask(), hold()));
    expect(failure.kind).toBe("authentication");
    expect(JSON.stringify(failure)).not.toContain("c4n4ry");
  });

  test("is described in one bounded line even when the body is a page of markup", async () => {
    const provider = await startProvider((response) => {
      response
        .writeHead(502, { "content-type": "text/html" })
        .end(`<html>\n${"<p>Bad\tGateway</p>\n".repeat(1_000)}`);
    });
    const failure = failureOf(await connect(provider).call(ask(), hold()));
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
    expect(failureOf(await model.call(ask(), hold()))).toMatchObject({
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
    const failure = failureOf(await connect(provider).call(ask(), hold()));
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

  /** What the provider has said by the beginning of its message. */
  const saidAtFirst = {
    input_tokens: 10,
    output_tokens: 1,
    cache_read_input_tokens: 0,
    cache_creation_input_tokens: 4,
  };

  /** A call whose answer has begun, and says no more than `beat` every 10 ms; no time passes for it but by its clock. */
  async function begunCall(options: object, beat?: string) {
    const [clock, half] = [handClock(), latch()];
    const provider = await startProvider((response) => {
      const body = messageStart() + textBlock(0, "half");
      response.writeHead(200, { "content-type": "text/event-stream" }).write(body);
      const timer = beat && setInterval(() => response.write(beat), 10);
      response.on("close", () => clearInterval(timer || undefined));
    });
    const onText = (text: string) => void (text === "half" && half.open());
    const call = connect(provider, { clock, ...options }).call(ask(), hold({ onText }));
    await half.opened;
    return { clock, provider, call };
  }

  test("a stream that stalls ends as a timeout that says what was bought, and gives its socket up", async () => {
    const { clock, provider, call } = await begunCall({ idleTimeoutMs: 60 });
    clock.advance(59);
    expect(await Promise.race([call, eventLoopTurn()])).toBeUndefined();
    clock.advance(1_000);
    const outcome = await call;
    expect(failureOf(outcome)).toMatchObject({ kind: "timeout", retryable: true });
    expect(outcome).toHaveProperty("usage", saidAtFirst);
    await until(() => provider.sockets.size === 0);
  });

  test("an error response whose body stalls ends too, with its status kept", async () => {
    const provider = await startProvider((response) => {
      response.writeHead(500, { "content-type": "application/json" }).write("{");
    });
    const outcome = await connect(provider, { idleTimeoutMs: 60 }).call(ask(), hold());
    expect(failureOf(outcome)).toMatchObject({ kind: "server_error", retryable: true, httpStatus: 500 });
  });

  test("a call that takes longer than its limit ends as a timeout that says what was bought, although bytes keep coming", async () => {
    const { clock, provider, call } = await begunCall({ timeoutMs: 150 }, event("ping"));
    clock.advance(149);
    expect(await Promise.race([call, eventLoopTurn()])).toBeUndefined();
    clock.advance(1_000);
    const outcome = await call;
    expect(failureOf(outcome)).toMatchObject({
      kind: "timeout",
      retryable: true,
      message: "the call took longer than 150 ms",
    });
    expect(outcome).toHaveProperty("usage", saidAtFirst);
    await until(() => provider.sockets.size === 0);
  });

  test("a stream that does not begin in time ends as a timeout; a whole answer has the time of its tokens", async () => {
    const provider = await startProvider((response, { json }) => {
      const timer = setTimeout(() => {
        if (json?.stream === true) stream(response, answer());
        else send(response, []);
      }, 300);
      response.on("close", () => clearTimeout(timer));
    });
    const model = connect(provider, { firstByteTimeoutMs: 60 });
    const streamed = await model.call(ask({ maxTokens: 20_000 }), hold());
    expect(failureOf(streamed)).toMatchObject({ kind: "timeout", retryable: true });
    const whole = await model.call(ask({ maxTokens: 20_000, stream: false }), hold());
    expect(whole.status).toBe("answer");
  });

  test("a server that never answers ends as a timeout", async () => {
    const provider = await startProvider(() => {});
    const outcome = await connect(provider, { timeoutMs: 80 }).call(ask(), hold());
    expect(failureOf(outcome)).toMatchObject({ kind: "timeout", retryable: true });
  });
});

describe("an aborted call", () => {
  test("in the middle of the stream ends at once as aborted, hears no more, and gives its socket up", async () => {
    const provider = await startProvider((response) => {
      response
        .writeHead(200, { "content-type": "text/event-stream" })
        .write(messageStart() + textBlock(0, "a"), () => response.write(textBlock(1, "b")));
    });
    const heard: string[] = [];
    const control = hold({
      onText: (text) => {
        heard.push(text);
        control.abortCall?.("heard enough");
      },
    });
    const outcome = await connect(provider).call(ask(), control);
    expect(outcome).toMatchObject({ status: "aborted", usage: { input_tokens: 10 } });
    expect(heard).toHaveLength(1);
    expect(control.abortCall).toBeNull();
    await until(() => provider.sockets.size === 0);
  });

  test("before the headers ends at once as aborted and gives its socket up", async () => {
    const arrived = latch();
    const provider = await startProvider(() => arrived.open());
    const control = hold();
    const outcome = connect(provider).call(ask(), control);
    await arrived.opened;
    control.abortCall?.("any reason");
    expect(await outcome).toEqual({ status: "aborted" });
    await until(() => provider.sockets.size === 0);
  });

  test("before it starts sends nothing", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    const control = hold();
    const outcome = connect(provider).call(ask(), control);
    control.abortCall?.("at once");
    expect(await outcome).toEqual({ status: "aborted" });
    expect(provider.received).toEqual([]);
  });

  test("by its caller's deadline ends as aborted, with what was bought, and gives its socket up", async () => {
    const clock = handClock();
    const provider = await startProvider((response) => {
      const body = messageStart() + textBlock(0, "half");
      response.writeHead(200, { "content-type": "text/event-stream" }).write(body);
    });
    const half = latch();
    const onText = (text: string) => void (text === "half" && half.open());
    const call = connect(provider, { clock }).call(ask(), hold({ deadlineMs: 80, onText }));
    await half.opened;
    clock.advance(79);
    expect(await Promise.race([call, eventLoopTurn()])).toBeUndefined();
    clock.advance(1_000);
    expect(await call).toMatchObject({ status: "aborted", usage: { input_tokens: 10 } });
    await until(() => provider.sockets.size === 0);
  });

  test("by its own deadline ends in time, whatever calls beside it have ended before", async () => {
    const clock = handClock();
    const provider = await startProvider((response, { json }) => {
      if (json?.model === "quick") stream(response, answer());
    });
    const model = connect(provider, { clock });
    const silent = [100, 200, 300].map((deadlineMs) => model.call(ask(), hold({ deadlineMs })));
    await until(() => provider.received.length === silent.length);
    expect(await model.call(ask({ model: "quick" }), hold())).toMatchObject({ status: "answer" });
    for (const call of silent) {
      expect(await Promise.race([call, eventLoopTurn()])).toBeUndefined();
      clock.advance(100);
      expect(await call).toMatchObject({ status: "aborted" });
    }
  });

  test("by stop ends as aborted; stop is idempotent and later calls are aborted", async () => {
    const arrived = latch();
    const provider = await startProvider(() => arrived.open());
    const model = connect(provider);
    const outcome = model.call(ask(), hold());
    await arrived.opened;
    await Promise.all([model.stop(), model.stop()]);
    expect(await outcome).toEqual({ status: "aborted" });
    expect(await model.call(ask(), hold())).toEqual({ status: "aborted" });
    await until(() => provider.sockets.size === 0);
  });
});

describe("connections", () => {
  test("that nothing uses do not keep the process alive, nor does the timer of a call that is over", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    answerOf(await connect(provider).call(ask(), hold()));
    expect(timers()).toBeLessThanOrEqual(before);
  });

  test("sequential calls share one socket, failed ones with a complete body included", async () => {
    let served = 0;
    const provider = await startProvider((response) => {
      served += 1;
      if (served % 3 === 0) refuse(response, 529, "overloaded_error", "Overloaded");
      else stream(response, answer());
    });
    const model = connect(provider);
    for (let call = 0; call < 12; call++) {
      await model.call(ask(), hold());
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
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => model.call(ask(), hold())));
    expect(outcomes.every(({ status }) => status === "answer")).toBe(true);
    expect(provider.connections).toBe(20);
  });

  test("are as many as there are calls side by side, however many", async () => {
    const calls = 300;
    const waiting: (() => void)[] = [];
    const provider = await startProvider((response) => {
      waiting.push(() => stream(response, answer()));
      if (waiting.length === calls) for (const go of waiting) go();
    });
    const model = connect(provider);
    const outcomes = await Promise.all(Array.from({ length: calls }, () => model.call(ask(), hold())));
    expect(outcomes.every(({ status }) => status === "answer")).toBe(true);
    expect(provider.connections).toBe(calls);
  });

  test("are not made again for calls that were aborted or failed", async () => {
    const held = latch();
    const provider = await startProvider((_, { socket }) => {
      if (provider.received.length === 1) held.open();
      else socket.resetAndDestroy();
    });
    const model = connect(provider);
    const control = hold();
    const aborted = model.call(ask(), control);
    await held.opened;
    control.abortCall?.("over");
    await aborted;
    await model.call(ask(), hold());
    await until(() => provider.sockets.size === 0);
    await eventLoopTurn();
    expect(provider.connections).toBe(2);
  });

  describe("fewer than calls", () => {
    async function oneConnection() {
      const held: (() => void)[] = [];
      const provider = await startProvider((response) => held.push(() => stream(response, answer())));
      const model = connect(provider, { connections: 1 });
      const first = model.call(ask(), hold());
      await until(() => held.length === 1);
      return { provider, model, first, held };
    }

    test("let a call wait for one; it is not sent when it may not begin any more", async () => {
      const { provider, model, first, held } = await oneConnection();
      let live = true;
      const second = model.call(ask(), hold({ mayBegin: () => live }));
      const third = model.call(ask(), hold());
      live = false;
      held[0]?.();
      expect((await first).status).toBe("answer");
      expect(await second).toEqual({ status: "aborted" });
      await until(() => held.length === 2);
      held[1]?.();
      expect((await third).status).toBe("answer");
      expect(provider.received).toHaveLength(2);
    });

    test("are never more than allowed, and all calls are answered", async () => {
      const provider = await startProvider((response) => stream(response, answer()));
      const model = connect(provider, { connections: 2 });
      const outcomes = await Promise.all(Array.from({ length: 8 }, () => model.call(ask(), hold())));
      expect(outcomes.every(({ status }) => status === "answer")).toBe(true);
      expect(provider.connections).toBe(2);
    });

    test("let a call wait for longer than a provider may be silent: nothing was sent yet", async () => {
      const held: (() => void)[] = [];
      const body = answer();
      const provider = await startProvider((response) => {
        response.writeHead(200, { "content-type": "text/event-stream" }).write(body.slice(0, -1));
        held.push(() => response.end(body.slice(-1)));
      });
      const [clock, begun] = [handClock(), latch()];
      const model = connect(provider, { connections: 1, firstByteTimeoutMs: 100, timeoutMs: 600, clock });
      const first = model.call(ask(), hold({ onText: () => begun.open() }));
      await begun.opened;
      const second = model.call(ask(), hold());
      await eventLoopTurn();
      clock.advance(500);
      held[0]?.();
      expect((await first).status).toBe("answer");
      await until(() => held.length === 2);
      held[1]?.();
      expect((await second).status).toBe("answer");
    });

    test("go on to those who wait, however many others have been aborted in the line", async () => {
      const { model, first, held } = await oneConnection();
      const controls = Array.from({ length: 8_000 }, () => hold());
      const waiting = controls.map((control) => model.call(ask(), control));
      await eventLoopTurn();
      for (const control of controls) control.abortCall?.("over");
      await Promise.all(waiting);
      const last = model.call(ask(), hold());
      held[0]?.();
      expect((await first).status).toBe("answer");
      await until(() => held.length === 2);
      held[1]?.();
      expect((await last).status).toBe("answer");
    });

    test("let a waiting call be aborted at once; it is never sent", async () => {
      const { provider, model, first, held } = await oneConnection();
      const control = hold();
      const second = model.call(ask(), control);
      await eventLoopTurn();
      control.abortCall?.("over");
      expect(await second).toEqual({ status: "aborted" });
      const third = model.call(ask(), hold());
      held[0]?.();
      expect((await first).status).toBe("answer");
      await until(() => held.length === 2);
      held[1]?.();
      expect((await third).status).toBe("answer");
      expect(provider.received).toHaveLength(2);
    });
  });

  test("a redirect is not followed", async () => {
    const elsewhere = await startProvider((response) => stream(response, answer()));
    const provider = await startProvider((response) => {
      response.writeHead(307, { location: `${elsewhere.baseUrl}/v1/messages` }).end();
    });
    const failure = failureOf(await connect(provider).call(ask(), hold()));
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
    await connect(provider).call(ask({ tools, purchaseId: "run-1/3" }), hold());
    const [request] = provider.received;
    expect(request?.url).toBe("/v1/messages");
    expect(request?.headers["idempotency-key"]).toBe("run-1/3");
    expect(request?.headers["anthropic-beta"]).toBeUndefined();
    // Nothing about this machine, and no header without a use.
    expect(Object.keys(request?.headers ?? {}).sort()).toEqual([
      "accept",
      "anthropic-version",
      "authorization",
      "connection",
      "content-length",
      "content-type",
      "host",
      "idempotency-key",
      "user-agent",
    ]);
    expect(request?.json).toEqual({
      model: "claude-test",
      max_tokens: 100,
      tools,
      system: [{ type: "text", text: "You are a test.", cache_control: cached }],
      messages: [QUESTION],
      cache_control: cached,
      stream: true,
    });
  });

  test("asks for a beta where it needs one", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    await connect(provider).call({ ...ask({ tools }), beta: "task-budgets-2026-03-13" }, hold());
    expect(provider.received[0]?.headers["anthropic-beta"]).toBe("task-budgets-2026-03-13");
  });

  test("has the idempotency key of its caller, and else the name of its purchase", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    const model = connect(provider);
    await model.call(ask(), hold());
    await model.call({ ...ask(), idempotencyKey: "run-1.1.1-other" }, hold());
    const keys = provider.received.map(({ headers }) => headers["idempotency-key"]);
    expect(keys).toEqual(["run-1.1.1", "run-1.1.1-other"]);
  });

  test("is byte-identical for equal requests, and the final call keeps the tools", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    const model = connect(provider);
    await model.call(ask({ tools }), hold());
    await model.call(ask({ tools: structuredClone(tools) }), hold());
    await model.call(ask({ tools, extra: NO_TOOL_CHOICE }), hold());
    const [first, second, finalCall] = provider.received;
    expect(second?.text).toBe(first?.text);
    expect(finalCall?.json).toEqual({ ...first?.json, tool_choice: { type: "none" } });
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
      const outcome = await connect(provider, { apiKey: "sk-given" }).call(ask(), hold());
      expect(answerOf(outcome).content).toEqual([{ type: "text", text: "hello" }]);
      expect(trap.connections).toBe(0);
      const headers = provider.received[0]?.headers;
      expect(headers?.authorization).toBe("Bearer sk-given");
      expect(JSON.stringify(headers)).not.toContain("canary");
    });
  });

  test("names the API version that the SDK itself would send", async () => {
    const provider = await startProvider((response) => stream(response, answer()));
    await connect(provider).call(ask(), hold());
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
    for (const id of ids) failureOf(await model.call(ask({ model: id }), hold()));
    expect(provider.received.map(({ json }) => json?.model)).toEqual(ids);
    for (const method of methods) expect(method).not.toHaveBeenCalled();
  });
});
