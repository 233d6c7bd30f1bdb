/** The lines of the MCP server's input: whole ones, and the id of a request whose line is too long to be kept. */
import { expect, test } from "vitest";
import { MessageLines } from "../../../../src/service/mcp/message-lines.ts";

/** Sends `text` in pieces of `size` bytes; a whole line as text, a lost one as its id. */
function linesOf(text: string, { most = 4_096, size = 700 } = {}) {
  const lines = new MessageLines(most);
  const bytes = Buffer.from(text);
  const found: unknown[] = [];
  for (let from = 0; from < bytes.length; from += size)
    for (const line of lines.push(bytes.subarray(from, from + size)))
      found.push("bytes" in line ? line.bytes.toString() : { lost: line.lostId });
  return found;
}

const LONG = "x".repeat(6_000);
const SAID = JSON.stringify({ text: `,"id":1} {"id":2,`, more: LONG });

test.for([1, 7, 700, 100_000])("in pieces of %i bytes each line comes whole, in its order", (size) => {
  expect(linesOf('{"id":1}\n\n{"id":"é"}\r\n{"id":', { size })).toEqual(['{"id":1}', "", '{"id":"é"}\r']);
});

test("a line of just the limit is kept, one byte more is not, and the next line is whole", () => {
  expect(linesOf(`${"x".repeat(4_096)}\n${"x".repeat(4_097)}\nlast\n`)).toEqual([
    "x".repeat(4_096),
    { lost: null },
    "last",
  ]);
});

test.for([
  ["before its parameters", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":${SAID}}`, 7],
  ["first of all", `{ "id" : "a-7", "method":"tools/call","params":${SAID}}`, "a-7"],
  ["at its end", `{"method":"tools/call","params":${SAID},"jsonrpc":"2.0","id":7}`, 7],
  ["before its last field", `{"params":${SAID},"id":-7,"jsonrpc":"2.0"}\r`, -7],
  ["nowhere", `{"method":"tools/call","params":${SAID}}`, null],
  ["only inside its parameters", `{"params":{"arguments":{"more":${SAID},"id":3}}}`, null],
  ["only in a text", `{"method":"x","params":{"said":${JSON.stringify(`${SAID},"id":3}`)}}`, null],
  ["where no scan looks", `{"params":${SAID},"id":7,"more":${SAID}}`, null],
] as const)("a lost line has the id that its request names %s", ([, line, id]) => {
  for (const size of [13, 700, 100_000]) expect(linesOf(`${line}\n`, { size })).toEqual([{ lost: id }]);
});

test("of a line without an end nothing but its ends is kept", () => {
  const lines = new MessageLines(4_096);
  const piece = Buffer.alloc(65_536, "x");
  const before = process.memoryUsage().arrayBuffers;
  let found = 0;
  for (let sent = 0; sent < 4_000; sent++) found += [...lines.push(Buffer.from(piece))].length;
  expect(found).toBe(0);
  globalThis.gc?.();
  expect([...lines.push(Buffer.from("\nnext\n"))]).toEqual([
    { lostId: null },
    { bytes: Buffer.from("next") },
  ]);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(128 * 1_048_576);
});
