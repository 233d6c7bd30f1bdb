import { describe, expect, it } from "vitest";
import { type Clock, systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { latch } from "../../../../helpers/latch.ts";
import { type McpAnswers, type McpMessage, startMcpServer } from "../../../../helpers/mcp.ts";

const MB = 1024 * 1024;
const logger = createLogger({ level: "silent" });
const { signal } = new AbortController();
const tool = (name: string, description = "") => ({ name, description, inputSchema: { type: "object" } });

async function connectTo(answers: McpAnswers, clock: Clock = systemClock) {
  const { url, asked } = await startMcpServer(answers);
  const connection = new ServerConnection("far", { url, headers: {}, timeout_ms: 60_000 }, { clock, logger });
  closeAtEnd(() => connection.stop());
  const count = (method: string) => asked.filter((each) => each === method).length;
  return { connection, count };
}

describe("the list of a server", () => {
  it("is asked for ever more rarely while the server connects and cannot be listed", async () => {
    const clock = handClock();
    let works = false;
    const answers: McpAnswers = {
      "tools/list"() {
        if (!works) throw new Error("broken");
        return { tools: [tool("a")] };
      },
      "tools/call": () => ({ content: [] }),
    };
    const { connection } = await connectTo(answers, clock);
    const waits: number[] = [];
    const fail = async () => {
      await expect(connection.list()).rejects.toThrow("far is not available. Go on without it.");
      waits.push(connection.backoffMs);
      clock.advance(connection.backoffMs);
    };
    for (let n = 0; n < 8; n++) await fail();
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    works = true;
    expect(await connection.list()).toHaveLength(1);
    works = false;
    for (let n = 0; n < 2; n++) await fail();
    await connection.call("a", {}, signal);
    await fail();
    expect(waits.slice(8), "a list has worked, and then a call").toEqual([1_000, 2_000, 1_000]);
  });

  it.for<[string, { perPage: number; chars: number; tools: number; pages: number }]>([
    ["50 pages", { perPage: 1, chars: 0, tools: 50, pages: 50 }],
    ["500 tools", { perPage: 200, chars: 0, tools: 500, pages: 3 }],
    ["10 MB", { perPage: 1, chars: 4 * MB, tools: 3, pages: 3 }],
  ])("without end is read for %s", async ([, { perPage, chars, tools, pages }]) => {
    const { connection, count } = await connectTo({
      "tools/list"({ params }) {
        const page = Number(params?.cursor ?? 0);
        const names = Array.from({ length: perPage }, (_, n) => `${page}-${n}`);
        return { tools: names.map((name) => tool(name, "x".repeat(chars))), nextCursor: `${page + 1}` };
      },
    });
    const names = (await connection.list()).map(({ name }) => name);
    expect(new Set(names).size).toBe(tools);
    expect(names).toHaveLength(tools);
    expect(count("tools/list")).toBe(pages);
  });

  it("is read as far as it counts where one page holds more than a call has arguments", async () => {
    const tools = Array.from({ length: 150_000 }, (_, n) => tool(`t${n}`));
    const { connection } = await connectTo({ "tools/list": () => ({ tools }) });
    expect(await connection.list()).toHaveLength(500);
  });

  it("of a server that says it has no tools is empty, and not asked for", async () => {
    const { connection, count } = await connectTo({
      initialize: ({ params }) => ({
        protocolVersion: params?.protocolVersion,
        capabilities: {},
        serverInfo: { name: "bare", version: "1" },
      }),
    });
    expect(await connection.list()).toEqual([]);
    expect(count("tools/list")).toBe(0);
  });
});

describe("an answer over HTTP", () => {
  const sized = (chars: number) => ({ content: [{ type: "text", text: "x".repeat(chars) }] });

  it("may have nearly 10 MB", async () => {
    const { connection, count } = await connectTo({ "tools/call": () => sized(10 * MB - 1_000) });
    for (let n = 0; n < 2; n++)
      expect((await connection.call("a", {}, signal)).content[0]).toMatchObject({ type: "text" });
    expect(count("initialize")).toBe(1);
  });

  it.for<[string, McpAnswers[string]]>([
    ["as JSON", () => sized(10 * MB)],
    [
      "as an event",
      ({ id }, response) => {
        const data = JSON.stringify({ jsonrpc: "2.0", id, result: sized(10 * MB) });
        response.writeHead(200, { "Content-Type": "text/event-stream" }).end(`data: ${data}\n\n`);
        return undefined;
      },
    ],
  ])("that has more ends its connection: %s", async ([, answer]) => {
    let answers = 0;
    const { connection, count } = await connectTo({
      "tools/call": (message, response) => (answers++ === 0 ? answer(message, response) : sized(1)),
    });
    await expect(connection.call("a", {}, signal)).rejects.toThrow(/^far broke off during this call/);
    expect((await connection.call("a", {}, signal)).content).toHaveLength(1);
    expect(count("initialize")).toBe(2);
  });
});

describe("a server that never ends its answer to the last message of connecting", () => {
  /** Answers `initialize`, and begins an answer to what follows it. */
  function trickling() {
    const begun = latch();
    const answers: McpAnswers = {
      "notifications/initialized"(_: McpMessage, response) {
        response.writeHead(200, { "Content-Type": "application/json" }).write(" ");
        begun.open();
        return undefined;
      },
    };
    return { begun: begun.opened, answers };
  }

  it("is given up after ten seconds", async () => {
    const clock = handClock();
    const { begun, answers } = trickling();
    const { connection } = await connectTo(answers, clock);
    const listing = expect(connection.list()).rejects.toThrow("far is not available. Go on without it.");
    await begun;
    clock.advance(10_000);
    await listing;
    expect(connection.backoffMs).toBe(1_000);
  });

  it("holds up nobody who stops", async () => {
    const { begun, answers } = trickling();
    const { connection } = await connectTo(answers, handClock());
    const listing = expect(connection.list()).rejects.toThrow("The worker stops.");
    await begun;
    await connection.stop();
    await listing;
    expect(connection.backoffMs, "it was not the server's fault").toBe(0);
  });
});
