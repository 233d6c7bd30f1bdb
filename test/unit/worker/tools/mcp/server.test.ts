import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { type Clock, systemClock } from "../../../../../src/shared/clock.ts";
import { createLogger } from "../../../../../src/shared/logger.ts";
import { ServerConnection } from "../../../../../src/worker/tools/mcp/server.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { latch } from "../../../../helpers/latch.ts";
import { type McpAnswers, type McpMessage, startMcpServer } from "../../../../helpers/mcp.ts";
import { spawnNode } from "../../../../helpers/processes.ts";
import { until } from "../../../../helpers/until.ts";

const MB = 1024 * 1024;
const logger = createLogger({ level: "silent" });
const { signal } = new AbortController();
const tool = (name: string, description = "") => ({ name, description, inputSchema: { type: "object" } });

async function connectTo(
  answers: McpAnswers,
  clock: Clock = systemClock,
  log = logger,
  headers: Record<string, string> = {},
  timeout_ms = 60_000,
) {
  const { url, asked } = await startMcpServer(answers);
  const connection = new ServerConnection("far", { url, headers, timeout_ms }, { clock, logger: log });
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

  it("is read as far as it counts where one page holds thousands", async () => {
    const tools = Array.from({ length: 15_000 }, (_, n) => tool(`t${n}`));
    const { connection } = await connectTo({ "tools/list": () => ({ tools }) });
    expect(await connection.list()).toHaveLength(500);
  });

  it("leaves out what is no tool, and keeps the others", async () => {
    const tools = [{}, 5, tool("a"), { ...tool("b"), inputSchema: { type: "array" } }];
    const { log, lines } = collected();
    const { connection } = await connectTo({ "tools/list": () => ({ tools }) }, systemClock, log);
    expect(await connection.list()).toMatchObject([{ name: "a" }]);
    expect(lines.filter((line) => line.includes("MCP tool left out"))).toHaveLength(3);
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

/** A logger, and the lines that it writes. */
function collected() {
  const lines: string[] = [];
  return { lines, log: createLogger({ destination: { write: (line) => void lines.push(line) } }) };
}

it("whatever a server answers with, the process keeps its memory: parts, tools and what it says of itself", async () => {
  const many = Array.from({ length: 400_000 }, () => ({}));
  const { url } = await startMcpServer({
    "tools/list": () => ({ tools: many }),
    "tools/call": () => ({ content: many }),
  });
  const { url: boasting } = await startMcpServer({
    initialize: ({ params }) => ({
      protocolVersion: params?.protocolVersion,
      capabilities: {},
      serverInfo: { name: "x", version: "1", icons: many },
    }),
  });
  const child = await spawnNode("test/helpers/fixtures/asks-mcp-server.ts", {
    nodeOptions: ["--max-old-space-size=256"],
    args: [url, boasting],
  });
  expect(await child.closed).toEqual({ code: 0, signal: null });
  expect(child.stdout).toEqual([
    "ToolFailure: far is not available. Go on without it.",
    "ToolFailure: far broke off during this call (it holds more than 100000 values): its effect is unknown. Check before you repeat it.",
    "ToolFailure: far is not available. Go on without it.",
  ]);
});

it("a server that says more than 10,000 values about itself is not connected", async () => {
  const { log, lines } = collected();
  const boasting = (icons: number): McpAnswers => ({
    initialize: ({ params }) => ({
      protocolVersion: params?.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "x", version: "1", icons: Array.from({ length: icons }, () => ({ src: "a:b" })) },
    }),
    "tools/list": () => ({ tools: [tool("a")] }),
  });
  const { connection } = await connectTo(boasting(4_000));
  expect(await connection.list()).toHaveLength(1);
  const { connection: other } = await connectTo(boasting(5_000), systemClock, log);
  await expect(other.list()).rejects.toThrow("far is not available.");
  expect(lines.join("")).toContain('"problem":"it said more than 10000 values about itself"');
});

it("an answer with more than 1,000 parts is read so far, and says how many more there were", async () => {
  const content = Array.from({ length: 1_500 }, (_, n) => ({ type: "text", text: `${n}` }));
  const { connection } = await connectTo({ "tools/call": () => ({ content }) });
  const read = await connection.call("a", {}, signal);
  expect(read.content).toHaveLength(1_001);
  expect(read.content.slice(-2)).toEqual([
    { type: "text", text: "999" },
    { type: "text", text: "[500 more parts: not shown]" },
  ]);
});

describe("no answer to a call in its time", () => {
  const unanswered = () => undefined;
  async function afterSilence(ping: McpAnswers[string]) {
    const answers: McpAnswers = {
      ping,
      "tools/call": ({ params }) => (params?.name === "slow" ? undefined : { content: [] }),
    };
    const { connection, count } = await connectTo(answers, systemClock, logger, {}, 1_000);
    await expect(connection.call("slow", {}, signal)).rejects.toThrow("far did not answer within 1 s");
    await until(() => count("ping") === 1);
    return { again: () => connection.call("again", {}, signal), count };
  }

  it("nor to a ping has the next call make another connection: the server hangs", async () => {
    const { again, count } = await afterSilence(unanswered);
    await until(async () => {
      await again();
      return count("initialize") === 2;
    });
  });

  it.for<[string, McpAnswers[string]]>([
    ["answered", () => ({})],
    [
      "refused",
      () => {
        throw new Error("no such method");
      },
    ],
  ])(
    "but a ping that is %s leaves the connection: the server is only slow with this tool",
    async ([, ping]) => {
      const { again, count } = await afterSilence(ping);
      await again();
      expect(count("initialize")).toBe(1);
    },
  );
});

it("a call that was cancelled says nothing about its server: no ping is sent, and its connection stays", async () => {
  const asked = latch();
  const { connection, count } = await connectTo({
    ping: () => undefined,
    "tools/call"({ params }) {
      if (params?.name !== "slow") return { content: [] };
      asked.open();
      return undefined;
    },
  });
  const stop = new AbortController();
  const slow = connection.call("slow", {}, stop.signal);
  await asked.opened;
  stop.abort();
  await expect(slow).rejects.toThrow("far was not waited for: the call was cancelled.");
  await connection.call("again", {}, signal);
  expect([count("ping"), count("initialize")]).toEqual([0, 1]);
});

describe("an answer that cannot be used", () => {
  const status = (code: number, body = ""): McpAnswers[string] => {
    return (_, response) => {
      response.writeHead(code).end(body);
      return undefined;
    };
  };
  /** A call that waits for its answer while another one gets `bad`; `again` is a call after both. */
  async function besides(bad: McpAnswers[string], more: McpAnswers = {}) {
    const [asked, release] = [latch(), latch()];
    const { connection, count } = await connectTo({
      ...more,
      "tools/call"(message, response) {
        const { name } = message.params ?? {};
        if (name === "bad") return bad(message, response);
        const answer = { content: [{ type: "text", text: `${name}` }] };
        if (name !== "held") return answer;
        asked.open();
        void release.opened.then(() => {
          const said = { jsonrpc: "2.0", id: message.id, result: answer };
          response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(said));
        });
        return undefined;
      },
    });
    const held = connection.call("held", {}, signal).then(
      ({ content }) => content,
      (error: unknown) => String(error),
    );
    await asked.opened;
    const failed = await connection.call("bad", {}, signal).catch((error: unknown) => String(error));
    release.open();
    const again = await connection.call("again", {}, signal).then(({ content }) => content);
    return { failed, held: await held, again, connected: count("initialize") };
  }
  const said = (text: string) => [{ type: "text", text }];

  it.for<[string, McpAnswers[string]]>([
    ["a part of no kind", () => ({ content: [{ type: "smell" }] })],
    ["no list of parts", () => ({ content: "x" })],
    ["a status of 500", status(500, "broken")],
    ["a status of 400 about something else", status(400, "no such city")],
    ["a status of 404 without a session", status(404)],
    [
      "no JSON",
      (_, response) => void response.writeHead(200, { "Content-Type": "application/json" }).end("{"),
    ],
  ])("breaks no call but its own: %s", async ([, bad]) => {
    const { failed, ...others } = await besides(bad);
    expect(failed).toMatch(/^ToolFailure: far gave no answer that can be read \(/);
    expect(others).toEqual({ held: said("held"), again: said("again"), connected: 1 });
  });

  it.for<[string, McpAnswers[string]]>([
    ["404", status(404)],
    ["400", status(400, "Bad Request: No valid session ID provided")],
  ])("says with a status of %s that the session is gone: the next call has another one", async ([, bad]) => {
    const initialize: McpAnswers[string] = ({ params }, response) => {
      response.setHeader("Mcp-Session-Id", "one");
      return {
        protocolVersion: params?.protocolVersion,
        capabilities: {},
        serverInfo: { name: "x", version: "1" },
      };
    };
    const { failed, again, connected } = await besides(bad, { initialize });
    expect(failed).toMatch(/^ToolFailure: far broke off during this call \(/);
    expect([again, connected]).toEqual([said("again"), 2]);
  });

  it("three times in a row has the next call make another connection: what it was to may be gone", async () => {
    const { connection, count } = await connectTo({ "tools/call": status(500) });
    const connections: number[] = [];
    for (let i = 0; i < 4; i++) {
      await connection.call("bad", {}, signal).catch(() => {});
      connections.push(count("initialize"));
    }
    expect(connections).toEqual([1, 1, 1, 2]);
  });
});

describe("a stream that a server ends", () => {
  it.for<[string, string, number[]]>([
    ["at once", "retry: 0", [1, 2, 4, 8, 16, 32, 60, 60]],
    ["in years", "retry: 99999999999", [60, 60]],
    ["never mind when", ": nothing", [1, 2, 4]],
  ])("and wants to be asked for again %s is asked for ever more rarely", async ([, line, seconds]) => {
    const [clock, called] = [handClock(), latch()];
    const { connection, count } = await connectTo(
      {
        GET(_, response) {
          // What is answered to the call would have the pauses begin again.
          void called.opened.then(() =>
            response.writeHead(200, { "Content-Type": "text/event-stream" }).end(`${line}\n\n`),
          );
          return undefined;
        },
        "notifications/initialized": (_, response) => void response.writeHead(202).end(),
        "tools/call": () => ({ content: [] }),
      },
      clock,
    );
    await connection.call("a", {}, signal);
    called.open();
    const waited: number[] = [];
    for (const round of seconds.keys()) {
      await until(() => clock.pending === 1 && count("GET") === round + 1);
      let passed = 0;
      for (; clock.pending === 1; passed++) clock.advance(1_000);
      waited.push(passed);
    }
    expect(waited).toEqual(seconds);
    await until(() => clock.pending === 1);
    await connection.stop();
    expect(clock.pending).toBe(0);
  });
});

describe("what a server asks of this side", () => {
  /** A server with a stream to ask over: `ask` sends so many pings. */
  async function asking(answer: McpAnswers[string]) {
    const clock = handClock();
    const { log, lines } = collected();
    const streams: ServerResponse[] = [];
    let pings = 0;
    const { connection, count } = await connectTo(
      {
        GET: (_, response) => {
          response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
          streams.push(response);
          return undefined;
        },
        "notifications/initialized": (_, response) => void response.writeHead(202).end(),
        answer,
        "tools/call": ({ params }) => (params?.name === "held" ? undefined : { content: [] }),
      },
      clock,
      log,
    );
    await connection.call("a", {}, signal);
    await until(() => streams.length === 1);
    const ask = (times: number) => {
      for (let n = 0; n < times; n++)
        streams
          .at(-1)
          ?.write(`data: ${JSON.stringify({ jsonrpc: "2.0", id: `p${pings++}`, method: "ping" })}\n\n`);
    };
    return { connection, count, clock, ask, lines, held: connection.call("held", {}, signal) };
  }
  const taken: McpAnswers[string] = (_, response) => void response.writeHead(202).end();

  it("is answered a hundred times a second, and ends the connection beyond that", async () => {
    const { count, clock, ask, lines, held } = await asking(taken);
    const broken = expect(held).rejects.toThrow(
      "far broke off during this call (it asked more than 100 times a second)",
    );
    for (let round = 1; round <= 4; round++) {
      ask(50);
      await until(() => count("answer") === round * 50);
      if (round % 2 === 0) clock.advance(1_000);
    }
    ask(60);
    await until(() => count("answer") === 260);
    ask(41);
    await broken;
    expect(count("answer")).toBeLessThanOrEqual(300);
    expect(lines.filter((line) => line.includes("goes beyond its bounds"))).toHaveLength(1);
  });

  it("ends the connection when 64 answers are not taken", async () => {
    const { ask, held, connection, count } = await asking(() => undefined);
    const broken = expect(held).rejects.toThrow("(it left 64 answers to its questions untaken)");
    ask(65);
    await broken;
    await connection.call("a", {}, signal);
    expect(count("initialize")).toBe(2);
  });
});

it("of what a server wrote before it failed, the log holds no half of a secret", async () => {
  const token = "tok-8c1f00d5b7e94a62a1d3";
  const { log, lines } = collected();
  const script = 'process.stderr.write(process.env.SHOP_TOKEN + "y".repeat(985)); process.exitCode = 1;';
  const server = {
    command: process.execPath,
    args: ["-e", script],
    env: { SHOP_TOKEN: token },
    timeout_ms: 60_000,
  };
  const connection = new ServerConnection("near", server, { clock: systemClock, logger: log });
  closeAtEnd(() => connection.stop());
  await expect(connection.list()).rejects.toThrow("near is not available.");
  const [line = "{}"] = lines.filter((each) => each.includes("MCP server not available"));
  expect(JSON.parse(line)).toMatchObject({ said: `[redacted]${"y".repeat(985)}` });
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
    await expect(connection.call("a", {}, signal)).rejects.toThrow(
      /^far broke off during this call \(it is longer than 10485760 bytes\)/,
    );
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

describe("a session over HTTP", () => {
  /** A server that gives each connection a session of its own, and the headers with which it was told of their ends. */
  function withSessions(DELETE: (response: ServerResponse) => void) {
    const ended: Record<string, unknown>[] = [];
    let sessions = 0;
    const answers: McpAnswers = {
      initialize({ params }, response) {
        response.setHeader("Mcp-Session-Id", `session-${++sessions}`);
        return {
          protocolVersion: params?.protocolVersion,
          capabilities: { tools: {} },
          serverInfo: { name: "test", version: "1" },
        };
      },
      "tools/list": () => ({ tools: [tool("a")] }),
      "tools/call": () => ({ content: [] }),
      DELETE({ params }, response) {
        ended.push(params ?? {});
        DELETE(response);
        return undefined;
      },
    };
    return { answers, ended };
  }

  it("is ended with its connection, once, with the headers of the server", async () => {
    const { answers, ended } = withSessions((response) => response.writeHead(200).end());
    const { connection } = await connectTo(answers, systemClock, logger, {
      authorization: "Bearer of-the-session",
    });
    await connection.list();
    expect(ended.map((headers) => headers["mcp-session-id"])).toEqual(["session-1"]);
    await connection.call("a", {}, signal);
    await connection.call("a", {}, signal);
    expect(ended).toHaveLength(1);
    await connection.stop();
    await connection.stop();
    expect(ended).toHaveLength(2);
    expect(ended[1]).toMatchObject({
      "mcp-session-id": "session-2",
      "mcp-protocol-version": expect.stringMatching(/^20/),
      authorization: "Bearer of-the-session",
    });
  });

  it.for<[string, (response: ServerResponse) => void]>([
    ["refuses", (response) => response.writeHead(500).end("no")],
    ["breaks off", (response) => response.destroy()],
    ["sends elsewhere", (response) => response.writeHead(307, { Location: "/mcp" }).end()],
    ["does not answer", () => undefined],
    ["never ends its answer", (response) => void response.writeHead(200).write("x")],
  ])("holds up nobody where the server %s", async ([, DELETE]) => {
    const { answers, ended } = withSessions(DELETE);
    const { connection } = await connectTo(answers);
    await connection.call("a", {}, signal);
    const sinceMs = performance.now();
    await connection.stop();
    expect(performance.now() - sinceMs).toBeLessThan(4_000);
    expect(ended).toHaveLength(1);
  });

  it("that the server did not begin is not ended", async () => {
    let deletes = 0;
    const { connection } = await connectTo({
      "tools/list": () => ({ tools: [] }),
      DELETE(_message, response) {
        deletes += 1;
        response.end();
        return undefined;
      },
    });
    await connection.list();
    expect(deletes).toBe(0);
  });
});
