import { expect, test } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { CallResult, textOf } from "../../../../../src/worker/tools/mcp/answer.ts";
import { createMcpTools } from "../../../../../src/worker/tools/mcp/tools.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { startMcpServer } from "../../../../helpers/mcp.ts";

test("a tool without a name, or with a schema of more than 64 KB, is left out, and the log says why", async () => {
  const inputSchema = { type: "object" };
  const long = { ...inputSchema, description: "x".repeat(64 * 1024) };
  const listed = [
    { name: "fine", inputSchema },
    { name: "", inputSchema },
    { name: "long", inputSchema: long },
  ];
  const { url } = await startMcpServer({ "tools/list": () => ({ tools: listed }) });
  const lines: string[] = [];
  const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
  const mcp = createMcpTools(
    { far: { url, headers: {}, timeout_ms: 60_000 } },
    { clock: systemClock, logger },
  );
  closeAtEnd(() => mcp.stop());
  await mcp.start();
  expect(mcp.tools().map(({ name }) => name)).toEqual(["mcp__far__fine"]);
  expect(lines.map((line) => JSON.parse(line).problem)).toEqual([
    expect.stringContaining("its name is empty"),
    "its input schema is longer than 65536 characters",
  ]);
});

test("what of a result is no text is named by its type", () => {
  const content = [
    { type: "resource", resource: { uri: "file:///a.txt", text: "A" } },
    { type: "resource", resource: { uri: "file:///b.png", blob: "AA==" } },
    { type: "resource_link", name: "c", uri: "file:///c" },
    { type: "audio", mimeType: "audio/wav", data: "AA==" },
  ];
  expect(textOf(CallResult.parse({ content })).split("\n")).toEqual([
    "A",
    "[file:///b.png: not text]",
    "[c: file:///c]",
    "[audio, audio/wav: not shown]",
  ]);
});
