/**
 * Guarantee: no secret of a worker leaves it, in whatever spelling, by whatever way: what is stored, published, sent, shown,
 * logged, counted, traced and thrown is searched after everything that can speak has said all of them.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createBoard } from "../../src/service/board/board.ts";
import { mcpMount } from "../../src/service/mcp/mount.ts";
import { SubagentError } from "../../src/shared/errors.ts";
import { startApi } from "../helpers/api.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { LEAK, type LeakyScene, openLeakyScene, SECRETS, shownIn } from "../helpers/leaky-scene.ts";
import { askMcp } from "../helpers/mcp.ts";
import { testClient } from "../helpers/parents.ts";
import { spawnNode } from "../helpers/processes.ts";
import { runHere } from "../helpers/program.ts";
import { until } from "../helpers/until.ts";

const exporter = new InMemorySpanExporter();
const tracing = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
let scene: LeakyScene;

beforeAll(async () => {
  trace.setGlobalTracerProvider(tracing);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  scene = await openLeakyScene();
  // The reply is pushed a moment after it is there.
  await until(() => scene.out.get("webhooks")?.some((body) => body.includes("sub_agent.reply")));
});
afterAll(async () => {
  trace.disable();
  context.disable();
  await tracing.shutdown();
});

/** Nothing in it, and something of it: what was not there to be searched proves nothing. */
function expectClean(texts: readonly string[], contains: string): void {
  const text = texts.join("\n");
  expect(shownIn(text)).toEqual([]);
  expect(text).toContain(contains);
}

test("the scene says every secret", () => {
  expect(shownIn(LEAK)).toHaveLength(24);
});

test.for([
  ["requests", "say everything"],
  ["published", "text_delta"],
  ["logs", "MCP server not available"],
  ["webhooks", "webhook-signature"],
  ["metrics", 'subagent_tool_duration_seconds_count{tool="unknown"'],
] as const)("nothing is in the %s", ([way, contains]) => {
  expectClean(scene.out.get(way) ?? [], contains);
});

test("nothing is in the spans", () => {
  const spans = exporter.getFinishedSpans().map(({ name, attributes, events, status, links }) => ({
    ...{ name, attributes, events, status, links },
  }));
  expectClean([JSON.stringify(spans)], "execute_tool");
});

test("nothing is in any key of Redis: logs, timelines, replies, questions, announcements, jobs", async () => {
  expectClean(await everythingStored(), "The run ended as failed");
});

test("nothing is in what agents leave, their traces and names of files included", () => {
  const root = scene.stage.workspaceRoot;
  const paths = readdirSync(root, { recursive: true, encoding: "utf8" });
  const files = paths.filter((path) => statSync(join(root, path)).isFile());
  expectClean([...paths, ...files.map((path) => readFileSync(join(root, path), "utf8"))], "trace.jsonl");
});

describe("a parent reads nothing of it", () => {
  test("over the library", async () => {
    const { parent, agents } = scene;
    const { text, entries } = await parent.newReplies();
    const read = [text, JSON.stringify(entries), JSON.stringify(await parent.usage())];
    for (const id of agents) {
      const sheet = [parent.get(id), parent.timeline(id), parent.transcript(id), parent.files(id)];
      read.push(JSON.stringify(await Promise.all(sheet)));
    }
    expectClean(read, "redacted");
  });

  test("over HTTP, in problem documents, and over MCP", async () => {
    const { stage, url, agents } = scene;
    const client = stage.client({ redisUrl: url, workspaceRoot: stage.workspaceRoot });
    const api = await startApi({ client, mounts: [mcpMount()] });
    const own = "/v1/parents/planner-7";
    const paths = ["/v1/parents", "/metrics", "/openapi.json", own, `${own}/agents`, `${own}/replies`];
    for (const id of agents)
      for (const what of ["", "/reply", "/transcript", "/timeline", "/files"])
        paths.push(`${own}/agents/${id}${what}`);
    const wrong = [encodeURIComponent(SECRETS.redis), SECRETS.provider];
    paths.push(
      ...wrong.flatMap((each) => [`/v1/parents/${each}/agents`, `${own}/agents/${each}/files/${each}`]),
    );
    const said = await Promise.all(paths.map((path) => api.ask("GET", path)));
    expectClean([JSON.stringify(said.map(({ body }) => body))], "redacted");
    const posted = await api.ask("POST", `${own}/agents`, { body: { [SECRETS.redis]: LEAK, name: LEAK } });
    expectClean([JSON.stringify(posted.body)], "invalid_input");
    const mcp = new URL(`${api.url}/mcp?parent=planner-7`);
    const calls = ["list_sub_agents", "check_sub_agent", "task", SECRETS.provider].map((name) =>
      askMcp(mcp, "tools/call", { name, arguments: { agent_id: agents[0], [LEAK]: LEAK } }),
    );
    const checked = askMcp(mcp, "tools/call", {
      name: "check_sub_agent",
      arguments: { agent_id: agents[0] },
    });
    expectClean([JSON.stringify(await Promise.all([...calls, checked]))], "redacted");
  });

  test("on the board", async () => {
    const board = createBoard({ redisUrl: scene.url, prefix: scene.stage.prefix });
    closeAtEnd(() => board.stop());
    await board.start();
    // It answers before it has reached Redis.
    await until(async () => (await fetch(`${board.url}/api/queues`)).status === 200);
    const shown = await Promise.all(
      ["latest", "completed", "failed"].map(async (status) => {
        const query = `activeQueue=wakes&jobsPerPage=20&status=${status}`;
        return (await fetch(`${board.url}/api/queues?${query}`)).text();
      }),
    );
    expectClean(shown, "failed");
  });

  test("at the command line", async () => {
    const [first = ""] = scene.agents;
    const reply = (await scene.parent.newReplies()).entries.find(({ kind }) => kind === "reply");
    const commands = [
      ["ps"],
      ["list"],
      ["show", first, "--transcript"],
      ["logs"],
      ["replies"],
      ["usage"],
      ["doctor"],
      ["doctor", "replay", reply?.reply_id ?? ""],
    ];
    const said: string[] = [];
    for (const command of commands) {
      for (const more of [[], ["--json"]]) said.push(...(await saidBy(scene.url, [...command, ...more])));
    }
    expectClean(said, "redacted");
  });
});

/** What a command line prints that acts as the parent of the scene. */
async function saidBy(redisUrl: string, args: readonly string[]): Promise<string[]> {
  const { stage } = scene;
  const env = {
    REDIS_URL: redisUrl,
    SUBAGENT_PREFIX: stage.prefix,
    SUBAGENT_PARENT: "planner-7",
    SUBAGENT_WORKSPACES: stage.workspaceRoot,
    ANTHROPIC_API_KEY: SECRETS.provider,
    ANTHROPIC_BASE_URL: stage.offline.url,
    NO_COLOR: "1",
  };
  const { stdout, stderr } = await runHere(args, { cwd: stage.workspaceRoot, env });
  return [...stdout, ...stderr];
}

describe("an error shows nothing of it", () => {
  const KEY = SECRETS.provider;
  /** What clients and servers keep in their errors. */
  const cause = () =>
    Object.assign(new TypeError(LEAK, { cause: new AggregateError([new Error(LEAK)], LEAK) }), {
      ...{ name: KEY, code: KEY, command: { name: "auth", args: [LEAK] }, lastNodeError: new Error(LEAK) },
      ...{ config: { headers: { authorization: LEAK } }, [KEY]: KEY },
    });

  test.for([
    ["an error", cause],
    ["a frozen error", () => Object.freeze(cause())],
    ["an error whose cause is a text", () => new Error("x", { cause: LEAK })],
    ["a text", () => LEAK],
    ["an object", () => ({ [KEY]: LEAK, toString: () => LEAK })],
  ] as const)("whose cause is %s", ([, thrown]) => {
    const details = { [KEY]: [{ [LEAK]: LEAK }], field: KEY };
    const error = new SubagentError("redis_unavailable", `No Redis: ${LEAK}.`, details, thrown());
    expectClean(
      [inspect(error, { depth: 9, showHidden: true }), JSON.stringify(error)],
      "No Redis: [redacted]",
    );
  });

  test.for([
    ["a password that is refused", ["worker"], () => scene.url.replace("redis://leaky", "redis://nobody")],
    ["a port where nothing listens", [], () => scene.url.replace(/:\d+$/, ":9")],
    ["an address that is none", ["worker"], () => `redis://leaky:${SECRETS.redis}@127.0.0.1:1`],
  ] as const)("over %s", async ([, more, address]) => {
    const redisUrl = address();
    const client = () => testClient({ redisUrl });
    const error: unknown = await (async () => client().start())().catch((thrown: unknown) => thrown);
    const said = [inspect(error, { depth: 9, showHidden: true })];
    for (const verb of ["ps", "list", "doctor", ...more]) said.push(...(await saidBy(redisUrl, [verb])));
    expectClean(said, "Redis");
  });

  test("that no one catches ends the process without it", async () => {
    const script = "test/helpers/fixtures/throws-secrets.ts";
    const env = { LEAK: Buffer.from(LEAK).toString("base64"), KEEP: JSON.stringify(Object.values(SECRETS)) };
    const { closed, stderr } = await spawnNode(script, { env });
    expect((await closed).code).toBe(1);
    expectClean(stderr, "SubagentError");
  });
});

/** Every key and every value. */
async function everythingStored(): Promise<string[]> {
  const { redis } = scene.stage;
  const keys = (await redis.call("KEYS", "*")) as string[];
  const read: Record<string, (key: string) => Promise<unknown>> = {
    string: (key) => redis.get(key),
    hash: (key) => redis.hgetall(key),
    list: (key) => redis.lrange(key, 0, -1),
    set: (key) => redis.smembers(key),
    zset: (key) => redis.zrange(key, 0, -1),
    stream: (key) => redis.xrange(key, "-", "+"),
  };
  const values = keys.map(async (key) => {
    const value = await read[await redis.type(key)]?.(key);
    return `${key} ${inspect(value, { depth: 9, maxStringLength: null, maxArrayLength: null, breakLength: 1e9 })}`;
  });
  return Promise.all(values);
}
