import Anthropic from "@anthropic-ai/sdk";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createOfflineModel, type OfflineModel } from "../../src/offline/server.ts";
import { until } from "../helpers/until.ts";
import {
  callsByTurn,
  converse,
  createWorkbench,
  type Files,
  toolsNamed,
  type Workbench,
} from "./offline/workbench.ts";

let server: OfflineModel;
let client: Anthropic;
const benches: Workbench[] = [];

beforeEach(async () => {
  server = createOfflineModel();
  await server.start();
  client = new Anthropic({ baseURL: server.url, apiKey: "any", maxRetries: 0, logLevel: "off" });
});

afterEach(async () => {
  await server.stop();
  await Promise.all(benches.splice(0).map((bench) => bench.remove()));
});

async function workspace(files: Files): Promise<Workbench> {
  const bench = await createWorkbench(files);
  benches.push(bench);
  return bench;
}

const manifest = (dev: Record<string, string>, test: string): string =>
  JSON.stringify({ name: "x", scripts: { build: "tsc", test }, devDependencies: dev });

describe("the question for the testing framework", () => {
  const question = "Which testing framework does this project use?";

  it("is answered from package.json, with version and file", async () => {
    const bench = await workspace({
      "package.json": manifest({ vitest: "4.1.12", typescript: "7.0.2" }, "vitest run"),
    });
    const finished = await converse(client, bench, question);
    expect(callsByTurn(finished)).toEqual([["glob"], ["read_file"], []]);
    expect(finished.text).toContain("vitest 4.1.12");
    expect(finished.text).toContain("package.json");
  });

  it("changes with the file", async () => {
    const bench = await workspace({ "package.json": manifest({ vitest: "4.1.12" }, "vitest run") });
    await bench.write({ "package.json": manifest({ jest: "^30.0.0" }, "jest --ci") });
    const jest = await converse(client, bench, question);
    expect(jest.text).toContain("jest ^30.0.0");
    await bench.write({ "package.json": manifest({}, "echo none") });
    const none = await converse(client, bench, question);
    expect(none.text).toContain("I found no testing framework");
    expect(none.text).not.toContain("jest");
  });

  it("finds frameworks of other languages and deeper packages", async () => {
    const bench = await workspace({
      "package.json": manifest({}, "turbo test"),
      "packages/a/package.json": manifest({ mocha: "11.0.0" }, "mocha"),
    });
    expect((await converse(client, bench, question)).text).toContain("mocha 11.0.0");
    const python = await workspace({
      "pyproject.toml": '[project.optional-dependencies]\ndev = ["pytest>=8.1"]\n',
    });
    expect((await converse(client, python, question)).text).toContain("pytest >=8.1");
  });

  it("says so when there is no manifest at all", async () => {
    const bench = await workspace({ "notes.md": "nothing" });
    expect((await converse(client, bench, question)).text).toContain("any manifest: there is none");
  });

  it("is answered in the directory that the system prompt opens", async () => {
    const repo = await workspace({ "package.json": manifest({ ava: "6.0.0" }, "ava") });
    const empty = await workspace({});
    const system = `You are a sub-agent.\nOpen directories: ${repo.directory} (read-only)\n`;
    expect((await converse(client, empty, question, { system })).text).toContain("ava 6.0.0");
  });
});

describe("the question for the Lua scripts", () => {
  it("is answered with one line a file, read several at a time", async () => {
    const names = ["append", "claim", "release", "renew", "send", "settle", "spawn"];
    const files = Object.fromEntries(
      names.map((name) => [`lua/${name}.lua`, `-- ${name}: does the ${name}.\n-- KEYS[1] x\nreturn 1\n`]),
    );
    const bench = await workspace({ ...files, "lua/bare.lua": "return 0\n" });
    const finished = await converse(client, bench, "What is each Lua script for?");
    expect(callsByTurn(finished).map((calls) => calls.length)).toEqual([1, 6, 2, 0]);
    for (const name of names)
      expect(finished.text).toContain(`- lua/${name}.lua: ${name}: does the ${name}.`);
    expect(finished.text).toContain("lua/bare.lua: no comment at its head");
  });

  it("is answered with what may not be used", async () => {
    const bench = await workspace({ "a.lua": "-- closes a race\nreturn 1\n" });
    const blind = await converse(client, bench, "What is each Lua script for?", { tools: [] });
    expect(blind.text).toBe("I cannot do this now: `glob` may not be used.");
  });
});

describe("the other rules", () => {
  it("count comments by grep", async () => {
    const bench = await workspace({
      "a.ts": "// TODO one\nconst x = 1; // TODO two\n",
      "b.ts": '// TODO three\nconst t = "TODO";\n',
    });
    const { text } = await converse(client, bench, "How many TODO comments are there?");
    expect(text).toContain("3 TODO comments in 2 files");
    expect(text).toContain("- a.ts: 2");
    const none = await converse(client, bench, "How many FIXME comments are there?");
    expect(none.text).toContain("0 FIXME comments in 0 files.");
  });

  it("review a file as JSON with findings that follow from its lines", async () => {
    const bench = await workspace({
      "src/a.ts": `const ok = 1;\nconsole.log("x");\n// TODO tidy\n`,
    });
    const { text } = await converse(client, bench, "Review src/a.ts please");
    const review = JSON.parse(text);
    expect(review.verdict).toBe("changes_requested");
    expect(
      review.findings.map((finding: { line: number; rule: string }) => [finding.line, finding.rule]),
    ).toEqual([
      [2, "console-log"],
      [3, "todo"],
    ]);
    const missing = JSON.parse((await converse(client, bench, "Review src/none.ts please")).text);
    expect(missing.verdict).toBe("incomplete");
    expect(missing.unread).toEqual(["src/none.ts"]);
  });

  it("write what the request gives to the file it names", async () => {
    const bench = await workspace({});
    const { text } = await converse(client, bench, 'Please write "hello there" to out/greeting.txt');
    expect(await bench.read("out/greeting.txt")).toBe("hello there");
    expect(text).toContain("I wrote out/greeting.txt (11 bytes)");
  });

  it("write what another rule found out", async () => {
    const bench = await workspace({ "a.ts": "// TODO one\n" });
    const finished = await converse(
      client,
      bench,
      "How many TODO comments are there? Save the answer to todo.md",
    );
    expect(callsByTurn(finished)).toEqual([["grep"], ["write_file"], []]);
    expect(await bench.read("todo.md")).toContain("1 TODO comment in 1 file");
  });

  it("list files", async () => {
    const bench = await workspace({ "a.ts": "", "b/c.md": "" });
    expect((await converse(client, bench, "List all files")).text).toBe("2 files:\n- a.ts\n- b/c.md");
    expect((await converse(client, bench, "List the .md files")).text).toBe("1 file:\n- b/c.md");
  });

  it("say of a request that none of them answers it", async () => {
    const bench = await workspace({});
    const { text, turns } = await converse(client, bench, "Good morning!");
    expect(turns).toHaveLength(1);
    expect(text).toBe("I cannot answer this by rule, I am no language model: “Good morning!”");
  });

  it("answer a follow-up in the same conversation from its newest text", async () => {
    const bench = await workspace({ "a.ts": "// TODO one\n", "x.lua": "-- closes a race\n" });
    const first = await converse(client, bench, "How many TODO comments are there?");
    const second = await converse(client, bench, [
      ...first.messages,
      { role: "user", content: "What is each Lua script for?" },
    ]);
    expect(second.text).toContain("x.lua: closes a race");
  });

  it("take a remark beside tool results as no new request", async () => {
    const bench = await workspace({ "a.ts": "// TODO one\n" });
    const first = await client.messages.create({
      model: "offline-1",
      max_tokens: 1000,
      tools: toolsNamed(),
      messages: [{ role: "user", content: "How many TODO comments are there?" }],
    });
    const calls = first.content.filter((block) => block.type === "tool_use");
    const results = await Promise.all(
      calls.map(async (call) => ({
        type: "tool_result" as const,
        tool_use_id: call.id,
        ...(await bench.run(call.name, call.input)),
      })),
    );
    const { text } = await converse(client, bench, [
      { role: "user", content: "How many TODO comments are there?" },
      { role: "assistant", content: first.content },
      {
        role: "user",
        content: [...results, { type: "text", text: "Note: you have used half of your turns." }],
      },
    ]);
    expect(text).toContain("1 TODO comment in 1 file");
  });

  it("hand back what they have when tools are forbidden", async () => {
    const bench = await workspace({ "a.lua": "-- first\n", "b.lua": "-- second\n" });
    const late = await converse(client, bench, "What is each Lua script for?", { finalCallAtTurn: 2 });
    expect(late.turns.map((turn) => turn.stop_reason)).toEqual(["tool_use", "end_turn"]);
    expect(late.text).toContain("a.lua, b.lua");
    const early = await converse(client, bench, "What is each Lua script for?", { finalCallAtTurn: 1 });
    expect(early.text).toBe("I cannot do this now: `glob` may not be used.");
  });

  it("make one call a turn when parallel calls are switched off", async () => {
    const bench = await workspace({ "a.lua": "-- first\n", "b.lua": "-- second\n" });
    const finished = await converse(client, bench, "What is each Lua script for?", {
      extra: { tool_choice: { type: "auto", disable_parallel_tool_use: true } },
    });
    expect(callsByTurn(finished)).toEqual([["glob"], ["read_file"], ["read_file"], []]);
    expect(finished.text).toContain("b.lua: second");
  });
});

describe("the two ways of answering", () => {
  const content = [
    { type: "thinking" as const, thinking: "Let me look at this with care.", signature: "c2ln" },
    {
      type: "text" as const,
      text: "Grüße an alle, 👩‍🚀 inclusive, in a text long enough for several deltas.",
    },
    {
      type: "tool_use" as const,
      name: "read_file",
      input: { file_path: "a/very/long/path/to/some/file.ts", view_range: [1, 20] },
    },
  ];
  const params = {
    model: "claude-x",
    max_tokens: 500,
    tools: toolsNamed(),
    messages: [{ role: "user" as const, content: "go" }],
  };

  it("carry the same message, whole or streamed", async () => {
    server.setScenario({ turns: [{ content }] });
    const whole = await client.messages.create(params);
    const deltas: string[] = [];
    const streamed = await client.messages
      .stream(params)
      .on("text", (delta) => deltas.push(delta))
      .finalMessage();
    expect(streamed).toEqual({ ...whole, parsed_output: null });
    expect(whole.model).toBe("claude-x");
    expect(whole.stop_reason).toBe("tool_use");
    expect(whole.content[2]).toMatchObject({
      type: "tool_use",
      name: "read_file",
      caller: { type: "direct" },
    });
    expect(deltas.length).toBeGreaterThan(2);
  });

  it("stream the events of the real API in their order", async () => {
    server.setScenario({ turns: [{ content }] });
    const types: string[] = [];
    for await (const event of await client.messages.create({ ...params, stream: true })) {
      if (types.at(-1) !== event.type) types.push(event.type);
    }
    const block = ["content_block_start", "content_block_delta", "content_block_stop"];
    expect(types).toEqual(["message_start", ...block, ...block, ...block, "message_delta", "message_stop"]);
  });

  it("give a turn that is bought again the same ids, and every other turn its own", async () => {
    server.setScenario({
      turns: [{ content: [{ type: "tool_use", name: "glob", input: { pattern: "*" } }] }],
      repeat: true,
    });
    const first = await client.messages.create(params);
    const again = await client.messages.create(params);
    expect(again.content).toEqual(first.content);
    const bench = await workspace({});
    server.setScenario({
      turns: [{ content: [{ type: "tool_use", name: "glob", input: { pattern: "*" } }] }],
      repeat: true,
      hand_back: { content: [{ type: "text", text: "enough" }] },
    });
    const { turns, text } = await converse(client, bench, "go", { finalCallAtTurn: 10 });
    const ids = turns.flatMap((turn) =>
      turn.content.flatMap((item) => (item.type === "tool_use" ? [item.id] : [])),
    );
    expect(new Set(ids).size).toBe(9);
    expect(text).toBe("enough");
  });
});

describe("a scenario", () => {
  const ask = (text: string, more: Partial<Anthropic.MessageCreateParamsNonStreaming> = {}) =>
    client.messages.create({
      model: "m",
      max_tokens: 100,
      messages: [{ role: "user", content: text }],
      ...more,
    });
  const stream = (text: string) =>
    client.messages
      .stream({ model: "m", max_tokens: 100, messages: [{ role: "user", content: text }] })
      .finalMessage();

  it("plays its first failures, then the answer", async () => {
    server.setScenario({
      turns: [
        {
          content: [{ type: "text", text: "done" }],
          failures: [
            { status: 429, headers: { "retry-after": "600" } },
            { status: 529 },
            { reset: true },
            { stream: { errorAfterChunks: 3 } },
          ],
        },
      ],
    });
    const limited = await ask("x").catch((error: unknown) => error);
    expect(limited).toBeInstanceOf(Anthropic.RateLimitError);
    expect(limited instanceof Anthropic.APIError && limited.headers?.get("retry-after")).toBe("600");
    await expect(ask("x")).rejects.toMatchObject({
      status: 529,
      error: { error: { type: "overloaded_error" } },
    });
    await expect(ask("x")).rejects.toBeInstanceOf(Anthropic.APIConnectionError);
    await expect(stream("x")).rejects.toThrow(/overloaded_error/);
    expect((await ask("x")).content).toMatchObject([{ type: "text", text: "done" }]);
    expect(server.ledger.map((entry) => entry.error_type)).toEqual([
      "rate_limit_error",
      "overloaded_error",
      "reset",
      "overloaded_error",
      null,
    ]);
  });

  it.each([400, 401, 402, 403, 404, 413, 500, 504] as const)(
    "answers status %i as often as it is asked",
    async (status) => {
      server.setScenario({ turns: [{ error: { status } }] });
      await expect(ask("x")).rejects.toMatchObject({ status });
      await expect(ask("x")).rejects.toMatchObject({ status });
    },
  );

  it("plays any stop reason, known or not", async () => {
    for (const reason of [
      "max_tokens",
      "pause_turn",
      "refusal",
      "model_context_window_exceeded",
      "a_new_one",
    ]) {
      server.setScenario({ turns: [{ content: [{ type: "text", text: "so far" }], stop_reason: reason }] });
      expect((await ask("x")).stop_reason).toBe(reason);
      expect((await stream("x")).stop_reason).toBe(reason);
    }
  });

  it("breaks streams as told", async () => {
    const content = [{ type: "tool_use" as const, name: "glob", input: { pattern: "**/*" } }];
    server.setScenario({ turns: [{ content, stream: { resetAfterChunks: 2 } }] });
    await expect(stream("x")).rejects.toThrow();
    server.setScenario({ turns: [{ content, stream: { truncateAfterChunks: 3 } }] });
    await expect(stream("x")).rejects.toThrow(/without producing a Message/);
    server.setScenario({ turns: [{ content, stream: { invalidJsonInput: true } }] });
    const partial: string[] = [];
    for await (const event of await client.messages.create({
      model: "m",
      max_tokens: 9,
      stream: true,
      messages: [{ role: "user", content: "x" }],
    })) {
      if (event.type === "content_block_delta" && event.delta.type === "input_json_delta")
        partial.push(event.delta.partial_json);
    }
    expect(() => JSON.parse(partial.join(""))).toThrow();
  });

  it("stalls until the client leaves, and writes that down as aborted", async () => {
    server.setScenario({
      turns: [{ content: [{ type: "text", text: "never" }], stream: { stallAfterChunks: 1 } }],
    });
    const running = client.messages.stream({
      model: "m",
      max_tokens: 9,
      messages: [{ role: "user", content: "x" }],
    });
    await new Promise<void>((resolve) => running.on("streamEvent", () => resolve()));
    running.abort();
    await expect(running.done()).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
    await server.stop();
    expect(server.ledger).toMatchObject([{ status: "aborted", stream: true }]);
  });

  it("is aborted, and not served, when the client leaves in the middle of a slow stream", async () => {
    server.setScenario({
      turns: [{ content: [{ type: "text", text: "word ".repeat(50) }], stream: { chunkDelayMs: 5 } }],
    });
    const running = client.messages.stream({
      model: "m",
      max_tokens: 9,
      messages: [{ role: "user", content: "x" }],
    });
    await new Promise<void>((resolve) => running.on("text", () => resolve()));
    running.abort();
    await expect(running.done()).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
    await until(() => server.ledger.length > 0);
    expect(server.ledger.map((entry) => entry.status)).toEqual(["aborted"]);
    expect((await stream("x")).stop_reason).toBe("end_turn");
    expect(server.ledger.map((entry) => entry.status)).toEqual(["aborted", "served"]);
  });

  it("fills placeholders from the conversation and matches by first user text or system prompt", async () => {
    const bench = await workspace({ "a.txt": "the content" });
    server.setScenario([
      { match: { user: { regex: "^never" } }, turns: [{}] },
      {
        match: { user: "copy", system: "careful" },
        turns: [
          { content: [{ type: "tool_use", name: "read_file", input: { file_path: "a.txt" } }] },
          { content: [{ type: "text", text: "{{turn}} {{user}} {{last_tool_result}}" }] },
        ],
      },
    ]);
    const scripted = await converse(client, bench, "copy it", { system: "Be careful." });
    expect(scripted.text).toBe("1 copy it the content");
    const byRule = await converse(client, bench, "copy it", { system: "Be quick." });
    expect(byRule.text).toContain("I cannot answer this by rule");
  });

  it("says so when it is asked for a turn it does not have", async () => {
    server.setScenario({ turns: [{ content: [{ type: "text", text: "one" }] }] });
    const messages = [
      { role: "user" as const, content: "x" },
      { role: "assistant" as const, content: "one" },
      { role: "user" as const, content: "y" },
    ];
    await expect(client.messages.create({ model: "m", max_tokens: 9, messages })).rejects.toThrow(
      /asked for turn 2/,
    );
  });

  it("never calls a tool when tools are forbidden, whatever it scripts", async () => {
    server.setScenario({
      turns: [{ content: [{ type: "tool_use", name: "glob", input: {} }] }],
      repeat: true,
    });
    const message = await ask("Research quasars", { tools: toolsNamed(), tool_choice: { type: "none" } });
    expect(message.stop_reason).toBe("end_turn");
    expect(message.content.map((block) => block.type)).toEqual(["text"]);
  });

  it("can be set, and taken back, over HTTP", async () => {
    const set = (scenario: unknown) =>
      fetch(`${server.url}/offline/scenario`, { method: "POST", body: JSON.stringify(scenario) });
    expect((await set({ turns: [{ content: [{ type: "text", text: "scripted" }] }] })).status).toBe(200);
    expect((await ask("x")).content).toMatchObject([{ text: "scripted" }]);
    const refused = await set({ turns: [] });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain("turns");
    await set(null);
    expect((await ask("x")).content).toMatchObject([
      { text: expect.stringContaining("I cannot answer this by rule") },
    ]);
  });
});

describe("the rest of the API", () => {
  it("counts tokens as it bills them", async () => {
    const body = {
      model: "m",
      system: "You are brief.",
      tools: toolsNamed(),
      messages: [{ role: "user" as const, content: "hello" }],
    };
    const { input_tokens } = await client.messages.countTokens(body);
    const { usage } = await client.messages.create({ ...body, max_tokens: 100 });
    expect(usage.input_tokens).toBe(input_tokens);
    expect(input_tokens).toBeGreaterThan(50);
  });

  it("lists its model and says there that it is no LLM", async () => {
    const models = await client.models.list();
    expect(models.data.map((model) => model.id)).toEqual(["offline-1"]);
    expect((await client.models.retrieve("offline-1")).display_name).toContain("not an LLM");
  });

  it("reads the cache more and more over the turns of a conversation", async () => {
    const bench = await workspace({ "a.lua": "-- first\n" });
    const finished = await converse(client, bench, "What is each Lua script for?", {
      extra: { cache_control: { type: "ephemeral" } },
    });
    const reads = finished.turns.map((turn) => turn.usage.cache_read_input_tokens ?? 0);
    const written = finished.turns.map((turn) => turn.usage.cache_creation_input_tokens ?? 0);
    expect(reads[0]).toBe(0);
    expect(reads[1]).toBe(written[0]);
    expect(reads[2]).toBeGreaterThan(reads[1] ?? 0);
    expect(finished.turns.every((turn) => turn.usage.input_tokens === 0)).toBe(true);
  });

  it("keeps a ledger of what was served, and empties it on demand", async () => {
    const bench = await workspace({ "a.lua": "-- first\n" });
    await converse(client, bench, "What is each Lua script for?");
    const { entries } = (await (await fetch(`${server.url}/offline/ledger`)).json()) as {
      entries: OfflineModel["ledger"];
    };
    expect(entries.map((entry) => [entry.seq, entry.turn, entry.status, entry.stop_reason])).toEqual([
      [1, 0, "served", "tool_use"],
      [2, 1, "served", "tool_use"],
      [3, 2, "served", "end_turn"],
    ]);
    expect(new Set(entries.map((entry) => entry.conversation)).size).toBe(1);
    expect(new Set(entries.map((entry) => entry.request_hash)).size).toBe(3);
    await fetch(`${server.url}/offline/ledger`, { method: "DELETE" });
    expect(server.ledger).toEqual([]);
  });

  it("writes down a call that the client gave up while it waited", async () => {
    server.setScenario({ turns: [{ content: [{ type: "text", text: "late" }], latencyMs: 60_000 }] });
    const control = new AbortController();
    const call = client.messages.create(
      { model: "m", max_tokens: 9, messages: [{ role: "user", content: "x" }] },
      { signal: control.signal },
    );
    const health = async (): Promise<unknown> => (await fetch(`${server.url}/healthz`)).json();
    await until(() => server.inFlight === 1);
    expect(await health()).toMatchObject({ status: "ok", in_flight: 1 });
    control.abort();
    await expect(call).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
    await server.stop();
    expect(server.ledger).toMatchObject([{ status: "aborted", turn: 0 }]);
  });

  it("answers unknown paths and methods in the shape of an API error", async () => {
    const unknown = await fetch(`${server.url}/v1/nothing`);
    expect(unknown.status).toBe(404);
    expect(await unknown.json()).toMatchObject({
      type: "error",
      error: { type: "not_found_error" },
      request_id: unknown.headers.get("request-id"),
    });
    expect((await fetch(`${server.url}/v1/messages`)).status).toBe(405);
  });
});
