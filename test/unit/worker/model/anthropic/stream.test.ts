import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { AnswerDraft } from "../../../../../src/worker/model/anthropic/answer-draft.ts";
import { readerOf } from "../../../../../src/worker/model/anthropic/stream.ts";
import { anyCharacter } from "../../../../helpers/cases.ts";
import { block, event, messageEnd, messageStart, textBlock, toolBlock } from "../scripted-provider.ts";

const STREAM = "text/event-stream; charset=utf-8";

/** The answer that `body` comes to, cut into chunks of `size` bytes, and the text that was heard of it. */
function read(body: string, size = 1_000_000) {
  const draft = new AnswerDraft("m", 1_000);
  const heard: string[] = [];
  const reader = readerOf(STREAM, true, draft, (text) => heard.push(text));
  const bytes = Buffer.from(body);
  for (let at = 0; at < bytes.length; at += size) reader.feed(bytes.subarray(at, at + size));
  reader.end(true);
  return { draft, heard, answer: draft.finish() };
}

test("a body that is longer than an answer may be is given up on its way, not at its end", () => {
  const draft = new AnswerDraft("m", 1_000);
  const reader = readerOf("application/json", false, draft, undefined);
  const chunk = Buffer.alloc(100_000, " ");
  let fed = 0;
  while (!draft.isTooLarge && fed <= draft.limitBytes + chunk.length) {
    reader.feed(chunk);
    fed += chunk.length;
  }
  expect(draft.isTooLarge).toBe(true);
});

test("a listener that throws costs no part of an answer that is still coming", () => {
  const draft = new AnswerDraft("m", 1_000);
  const reader = readerOf(STREAM, true, draft, () => {
    throw new TypeError("listener broke");
  });
  for (const part of [messageStart() + textBlock(0, "a"), textBlock(1, "b"), messageEnd()])
    reader.feed(Buffer.from(part));
  reader.end(true);
  expect(draft.finish().content).toEqual([
    { type: "text", text: "a" },
    { type: "text", text: "b" },
  ]);
});

const delta = (json: string) => `event: content_block_delta\ndata: ${json}\n\n`;
const inBlock = (...deltas: string[]) =>
  messageStart() +
  event("content_block_start", { index: 0, content_block: { type: "text", text: "" } }) +
  deltas.join("") +
  event("content_block_stop", { index: 0 }) +
  messageEnd();

test.each([
  ["text_delta", "text"],
  ["input_json_delta", "partial_json"],
])("a %s without its %s is refused: a tool would run with another input", (type, field) => {
  const odd = delta(`{"type":"content_block_delta","index":0,"delta":{"type":"${type}"}}`);
  expect(() => read(inBlock(odd))).toThrow(`a ${type} without a ${field}`);
});

test.each([
  ["that cannot be printed", '{"toString":1}'],
  ["of 10,000 lists", "[".repeat(10_000) + "]".repeat(10_000)],
  ["that nobody knows", '"odd_delta"'],
])("a delta with a type %s is malformed, which may be tried again", (_, type) => {
  const odd = delta(`{"type":"content_block_delta","index":0,"delta":{"type":${type}}}`);
  expect(() => read(inBlock(odd))).toThrow(expect.objectContaining({ name: "MalformedAnswerError" }));
});

describe("a streamed answer", () => {
  test("is the same whatever its texts are and wherever its chunks end", () => {
    const text = fc.string({ unit: anyCharacter, maxLength: 60 });
    fc.assert(
      fc.property(fc.array(text, { maxLength: 6 }), fc.integer({ min: 1, max: 400 }), (pieces, size) => {
        const input = JSON.stringify({ q: pieces });
        const half = Math.floor(input.length / 2);
        const body =
          messageStart() +
          textBlock(0, ...pieces) +
          toolBlock(1, input.slice(0, half), input.slice(half)) +
          messageEnd("tool_use");
        const { answer, heard } = read(body, size);
        expect(answer.content).toEqual([
          { type: "text", text: pieces.join("") },
          { type: "tool_use", id: "toolu_1", name: "grep", input: { q: pieces } },
        ]);
        expect(heard.join("")).toBe(pieces.join(""));
      }),
    );
  });

  test.each([
    ["as usual", '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\"}}b"}}'],
    [
      "with blanks at its end",
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\"}}b"} }   ',
    ],
    [
      "with another order of members",
      '{"index":0,"delta":{"text":"a\\"}}b","type":"text_delta"},"type":"content_block_delta"}',
    ],
    [
      "with a member behind its text",
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\"}}b","more":1}}',
    ],
    [
      "with blanks between its members",
      '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a\\"}}b"}}',
    ],
    [
      "with escapes for its characters",
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\u0061\\u0022}}b"}}',
    ],
  ])("is read however a delta is spelled: %s", (_, json) => {
    const { answer, heard } = read(inBlock(delta(json)));
    expect(answer.content).toEqual([{ type: "text", text: 'a"}}b' }]);
    expect(heard).toEqual(['a"}}b']);
  });

  test("is malformed when a delta breaks off behind its text", () => {
    const broken = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"';
    for (const end of ["", "}", "}}}"]) expect(() => read(inBlock(delta(broken + end)))).toThrow("not JSON");
  });

  test("is malformed when the end of a block breaks off", () => {
    const whole = inBlock(
      delta('{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}'),
    );
    const stop = '"index":0}\n\n';
    expect(read(whole).answer.content).toEqual([{ type: "text", text: "a" }]);
    for (const end of ["", "}}"]) {
      const at = whole.lastIndexOf(stop);
      const broken = `${whole.slice(0, at)}"index":0${end}\n\n${whole.slice(at + stop.length)}`;
      expect(() => read(broken)).toThrow("not JSON");
    }
  });

  test("ends its text at the quote, not at a backslash before it", () => {
    const { answer } = read(messageStart() + textBlock(0, "a\\", '\\"', "\\\\") + messageEnd());
    expect(answer.content).toEqual([{ type: "text", text: 'a\\\\"\\\\' }]);
  });

  test("is read with line ends of two characters, comments, and events of several lines", () => {
    const body = textBlock(0, "x").replace(/data: \{(.*)\}\n/, "data: {\ndata: $1\ndata: }\n");
    const lines = `: comment\n\n${messageStart()}${body}${messageEnd()}`.replaceAll("\n", "\r\n");
    expect(read(lines, 7).answer.content).toEqual([{ type: "text", text: "x" }]);
  });

  test("parses an event of any number of lines once, at its end", () => {
    const lines = "data: 1,\n".repeat(2_000);
    const body = `${messageStart()}data: [\n${lines}data: 1]\n\n${textBlock(0, "x")}${messageEnd()}`;
    const parse = vi.spyOn(JSON, "parse");
    try {
      expect(read(body).answer.content).toEqual([{ type: "text", text: "x" }]);
      expect(parse.mock.calls.length).toBeLessThan(20);
    } finally {
      parse.mockRestore();
    }
  });

  test("tells its listener once a chunk, and nothing of what is no text", () => {
    const body =
      messageStart() +
      block(
        0,
        { type: "thinking", thinking: "", signature: "" },
        { type: "thinking_delta", thinking: "hm" },
        { type: "signature_delta", signature: "c2ln" },
      ) +
      textBlock(1, "a", "b", "c") +
      toolBlock(2, "{}") +
      messageEnd("tool_use");
    expect(read(body).heard).toEqual(["abc"]);
  });

  test("keeps the input of a server's tool, parsed like that of a call", () => {
    const start = { type: "server_tool_use", id: "s", name: "web_search", input: {} };
    const body = block(0, start, { type: "input_json_delta", partial_json: '{"query":"x"}' });
    expect(read(messageStart() + body + messageEnd()).answer.content).toEqual([
      { ...start, input: { query: "x" } },
    ]);
  });

  test("ends with its last event: what follows is not read", () => {
    expect(read(`${messageStart()}${messageEnd()}data: {oops\n\n`).answer.content).toEqual([]);
  });

  test("of a line longer than an answer may be is too large, and its cost is still read", () => {
    const { limitBytes } = new AnswerDraft("m", 1_000);
    const body = messageStart() + textBlock(0, "x".repeat(limitBytes + 1)) + messageEnd();
    for (const size of [1_000, body.length]) {
      const draft = new AnswerDraft("m", 1_000);
      const reader = readerOf(STREAM, true, draft);
      for (let at = 0; at < body.length; at += size) reader.feed(Buffer.from(body.slice(at, at + size)));
      expect(draft.isTooLarge).toBe(true);
      expect(draft.isComplete).toBe(true);
      expect(draft.usage.output_tokens).toBe(7);
    }
  });
});

test("a line is not kept beyond the limit of the answer, though its end has not come", () => {
  const draft = new AnswerDraft("m", 1_000);
  const reader = readerOf(STREAM, true, draft);
  reader.feed(Buffer.from(`${messageStart()}data: `));
  reader.feed(Buffer.alloc(draft.limitBytes, "x"));
  expect(draft.isTooLarge).toBe(true);
  reader.feed(Buffer.from(`\n\n${messageEnd()}`));
  expect(draft.usage.output_tokens).toBe(7);
});

describe("what the server sends", () => {
  test("as one line of events byte by byte is put together once", () => {
    const draft = new AnswerDraft("m", 4_000);
    const reader = readerOf(STREAM, true, draft);
    const comment = `: ${" ".repeat(draft.limitBytes - 2)}\n\n`;
    const bytes = Buffer.from(messageStart() + comment + textBlock(0, "x") + messageEnd());
    const before = process.cpuUsage();
    for (let at = 0; at < bytes.length; at++) reader.feed(bytes.subarray(at, at + 1));
    const { user, system } = process.cpuUsage(before);
    expect(user + system).toBeLessThan(5_000_000);
    expect(draft.finish().content).toEqual([{ type: "text", text: "x" }]);
  });

  test("as one message byte by byte is put together twice", () => {
    const draft = new AnswerDraft("m", 1_000);
    const reader = readerOf("application/json", true, draft);
    const bytes = Buffer.from(
      `{"type":"message","stop_reason":"end_turn",${" ".repeat(90_000)}"content":[]}`,
    );
    const concat = vi.spyOn(Buffer, "concat");
    try {
      for (let at = 0; at < bytes.length; at++) reader.feed(bytes.subarray(at, at + 1));
      reader.end(true);
      const copied = concat.mock.results.reduce((sum, { value }) => sum + value.length, 0);
      expect(copied).toBeLessThanOrEqual(2 * bytes.length);
    } finally {
      concat.mockRestore();
    }
    expect(draft.finish().content).toEqual([]);
  });

  test("byte by byte is kept no further than the limit of the answer", () => {
    const draft = new AnswerDraft("m", 1);
    const reader = readerOf(STREAM, true, draft);
    reader.feed(Buffer.from(messageStart()));
    const byte = Buffer.from("x");
    for (let i = 0; i < draft.limitBytes; i++) reader.feed(byte);
    expect(draft.isTooLarge).toBe(false);
    reader.feed(byte);
    expect(draft.isTooLarge).toBe(true);
    reader.feed(Buffer.from(`\n\n${messageEnd()}`));
    expect(draft.usage.output_tokens).toBe(7);
  });

  test.each([STREAM, "application/json"])("as %s is read no further than 16 MiB", (type) => {
    const reader = readerOf(type, true, new AnswerDraft("m", 1));
    const chunk = Buffer.alloc(1024 * 1024, "x");
    for (let i = 0; i < 16; i++) reader.feed(chunk);
    expect(() => reader.feed(chunk)).toThrow("larger than");
  });

  test("is read as what its type says, and as what was asked for where it says nothing", () => {
    const read = (type: string, isStreamed: boolean, body: string) => {
      const draft = new AnswerDraft("m", 1);
      const reader = readerOf(type, isStreamed, draft);
      reader.feed(Buffer.from(body));
      reader.end(true);
      return draft.finish().stopReason;
    };
    const message = '{"type":"message","stop_reason":"whole","content":[]}';
    const events = messageStart() + messageEnd("streamed");
    expect(read("application/json", true, message)).toBe("whole");
    expect(read(STREAM, false, events)).toBe("streamed");
    expect(read("", false, message)).toBe("whole");
    expect(read("", true, events)).toBe("streamed");
  });
});
