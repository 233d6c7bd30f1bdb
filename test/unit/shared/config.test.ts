import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  type ConfigProblem,
  type Environment,
  EXPECTED,
  loadConfig,
  type VariableName,
  Variables,
} from "../../../src/shared/config.ts";
import { SubagentError } from "../../../src/shared/errors.ts";
import { MAX_CONCURRENCY, TIMING } from "../../../src/shared/protocol/limits.ts";

function refusalOf(env: Environment, sources = {}): { message: string; problems: ConfigProblem[] } {
  try {
    loadConfig(env, sources);
  } catch (error) {
    if (!(error instanceof SubagentError) || error.code !== "invalid_config") throw error;
    return { message: error.message, problems: error.details.problems as ConfigProblem[] };
  }
  throw new Error("the configuration was accepted");
}

test("without any variable there is no Redis, no provider, and the offline model", () => {
  expect(loadConfig({}, { cwd: "/srv/app" })).toEqual({
    redisUrl: undefined,
    provider: undefined,
    model: "offline-1",
    isModelSet: false,
    prefix: "saq",
    tenant: "default",
    parentId: "cli",
    roots: undefined,
    agents: [],
    skills: [],
    workspaceRoot: "/srv/app/.subagent-queue/workspaces",
    concurrency: 50,
    healthPort: undefined,
    callbackKey: undefined,
    limits: {},
    budgets: {},
    prices: {},
    timing: TIMING,
    mcpServers: {},
    logLevel: undefined,
    trace: "off",
    sendTraceparent: false,
    bash: { mode: "sandboxed", acceptRisk: false },
    production: false,
    unknownVariables: [],
  });
});

test("every variable arrives, trimmed and in its unit", () => {
  const config = loadConfig(
    {
      REDIS_URL: " unix:///run/redis.sock ",
      ANTHROPIC_API_KEY: "sk-abc",
      ANTHROPIC_BASE_URL: "http://127.0.0.1:9000",
      SUBAGENT_MODEL: "my-model",
      SUBAGENT_PREFIX: "mine",
      SUBAGENT_TENANT: "acme",
      SUBAGENT_PARENT: "planner-7",
      SUBAGENT_ROOTS: "/srv:ro",
      SUBAGENT_AGENTS: "/srv/agents, team",
      SUBAGENT_SKILLS: "/srv/skills",
      SUBAGENT_WORKSPACES: "/data/ws",
      SUBAGENT_CONCURRENCY: "7",
      SUBAGENT_HEALTH_PORT: "8790",
      SUBAGENT_MAX_TURNS: "12",
      SUBAGENT_MAX_TOKENS: "4000",
      SUBAGENT_MAX_DURATION: "90s",
      SUBAGENT_MAX_TOTAL_TOKENS: "100000",
      SUBAGENT_MAX_COST_USD: "0.50",
      SUBAGENT_BUDGET_AGENT_USD: "1",
      SUBAGENT_BUDGET_PARENT_USD: "5.50",
      SUBAGENT_BUDGET_TENANT_USD: "100",
      SUBAGENT_BUDGET_WINDOW: "1h",
      SUBAGENT_KEPT_AFTER_ACK: "90m",
      SUBAGENT_KEPT_TIMELINES: "2000",
      SUBAGENT_PRICES: '{"my-model":{"input":1,"output":2,"cache_read":0,"cache_write":0}}',
      SUBAGENT_CALLBACK_KEY: "lg-abc",
      SUBAGENT_LOG_LEVEL: "debug",
      SUBAGENT_TRACE: "full",
      SUBAGENT_SEND_TRACEPARENT: "yes",
      SUBAGENT_BASH: "unsandboxed",
      SUBAGENT_BASH_ACCEPT_RISK: "yes",
      SUBAGENT_EGRESS: "registry.npmjs.org, git.test:8443",
      SUBAGENT_EGRESS_RANGES: "10.0.0.0/8",
      NODE_ENV: "production",
    },
    { cwd: "/x" },
  );
  expect(config).toEqual({
    redisUrl: "unix:///run/redis.sock",
    provider: { apiKey: "sk-abc", baseUrl: "http://127.0.0.1:9000" },
    model: "my-model",
    isModelSet: true,
    prefix: "mine",
    tenant: "acme",
    parentId: "planner-7",
    roots: "/srv:ro",
    agents: ["/srv/agents", "/x/team"],
    skills: ["/srv/skills"],
    workspaceRoot: "/data/ws",
    concurrency: 7,
    healthPort: 8790,
    callbackKey: "lg-abc",
    limits: {
      max_turns: 12,
      max_tokens: 4000,
      max_duration_ms: 90_000,
      max_total_tokens: 100_000,
      max_cost_usd: 0.5,
    },
    budgets: {
      agent: { max_cost_usd: 1 },
      parent: { max_cost_usd: 5.5 },
      tenant: { max_cost_usd: 100, window_ms: 3_600_000 },
    },
    prices: { "my-model": { input: 1, output: 2, cache_read: 0, cache_write: 0 } },
    timing: { ...TIMING, keptAfterAckMs: 5_400_000, keptTimelines: 2_000 },
    mcpServers: {},
    logLevel: "debug",
    trace: "full",
    sendTraceparent: true,
    bash: { mode: "unsandboxed", acceptRisk: true },
    egress: { hosts: "registry.npmjs.org, git.test:8443", ranges: "10.0.0.0/8" },
    production: true,
    unknownVariables: [],
  });
});

test("an empty variable counts as not set", () => {
  const env = Object.fromEntries(Object.keys(EXPECTED).map((name) => [name, "  "]));
  expect(loadConfig(env, { cwd: "/x" })).toEqual(loadConfig({}, { cwd: "/x" }));
});

test("a key, or the address of another server, asks for the provider's model", () => {
  expect(loadConfig({ ANTHROPIC_API_KEY: "k" }).model).toBe("claude-sonnet-5-5");
  expect(loadConfig({ ANTHROPIC_BASE_URL: "http://127.0.0.1:1" })).toMatchObject({
    model: "claude-sonnet-5-5",
    provider: { apiKey: undefined, baseUrl: "http://127.0.0.1:1" },
  });
});

test("a key in the quotes that env files leave on it is refused", () => {
  for (const key of ['"sk-abc"', "'sk-abc'"]) {
    expect(() => loadConfig({ ANTHROPIC_API_KEY: key })).toThrow(
      /ANTHROPIC_API_KEY cannot be used: .*no quotes/,
    );
  }
});

const GARBAGE = {
  REDIS_URL: "localhost",
  ANTHROPIC_API_KEY: "two words",
  ANTHROPIC_BASE_URL: "ftp://x",
  SUBAGENT_MODEL: "a b",
  SUBAGENT_PREFIX: "{saq}",
  SUBAGENT_TENANT: "../x",
  SUBAGENT_PARENT: "sa-0123456789abcdef01234567",
  SUBAGENT_ROOTS: "srv",
  SUBAGENT_AGENTS: "a\0b",
  SUBAGENT_SKILLS: "a\0b",
  SUBAGENT_WORKSPACES: "a\0b",
  SUBAGENT_CONCURRENCY: "5001",
  SUBAGENT_HEALTH_PORT: "65536",
  SUBAGENT_CALLBACK_KEY: "two words",
  SUBAGENT_MAX_TURNS: "31",
  SUBAGENT_MAX_TOKENS: "-1",
  SUBAGENT_MAX_DURATION: "30",
  SUBAGENT_MAX_TOTAL_TOKENS: "NaN",
  SUBAGENT_MAX_COST_USD: "0",
  SUBAGENT_BUDGET_AGENT_USD: "0",
  SUBAGENT_BUDGET_PARENT_USD: "-1",
  SUBAGENT_BUDGET_TENANT_USD: "much",
  SUBAGENT_BUDGET_WINDOW: "500ms",
  SUBAGENT_KEPT_AFTER_ACK: "2d",
  SUBAGENT_KEPT_TIMELINES: "-1",
  SUBAGENT_PRICES: "/nowhere/prices.json",
  SUBAGENT_MCP: "/nowhere/servers.json",
  SUBAGENT_LOG_LEVEL: "loud",
  SUBAGENT_TRACE: "yes",
  SUBAGENT_SEND_TRACEPARENT: "perhaps",
  SUBAGENT_BASH: "bare",
  SUBAGENT_BASH_ACCEPT_RISK: "perhaps",
  SUBAGENT_EGRESS: "https://registry.npmjs.org/",
  SUBAGENT_EGRESS_RANGES: "the office",
} satisfies Record<Exclude<VariableName, "NODE_ENV">, string>;
const rootsProblem = () => "SUBAGENT_ROOTS must look like /srv/repo:ro,/data:rw; it does not.";

test("garbage in every variable is named at once, each with the form it must have", () => {
  const { message, problems } = refusalOf(GARBAGE, { rootsProblem });
  expect(problems.map((problem) => problem.variable).sort()).toEqual(Object.keys(GARBAGE).sort());
  for (const name of Object.keys(GARBAGE) as (keyof typeof GARBAGE)[]) {
    expect(message).toContain(name);
    if (name !== "SUBAGENT_ROOTS") expect(message).toContain(EXPECTED[name]);
  }
});

test.each([
  ["SUBAGENT_CONCURRENCY", ["0", "1.5", "1e2", "0x10", "fifty", "99999999999999999999"]],
  ["SUBAGENT_MAX_DURATION", ["0s", "25h", "1d", "-1s", "1.5h", "s"]],
  ["SUBAGENT_MAX_COST_USD", ["0", "-1", "NaN", "Infinity", "$2", "100001"]],
  ["SUBAGENT_MAX_TURNS", ["0", "-1", "NaN", "31"]],
  [
    "REDIS_URL",
    ["redis://", "http://x", "unix:///", "127.0.0.1:6379", "redis", "redis://h/db", "redis+cluster://"],
  ],
  ["ANTHROPIC_BASE_URL", ["api.anthropic.com", "https://"]],
  ["SUBAGENT_EGRESS_RANGES", ["10/8", "010.0.0.0/8", "10", "1/0"]],
] as const)("%s refuses %j", (name, values) => {
  for (const value of values) {
    const { problems } = refusalOf({ [name]: value });
    expect(problems).toEqual([{ variable: name, sentence: expect.stringContaining(EXPECTED[name]) }]);
  }
});

test.each([
  ["500ms", 500],
  ["90s", 90_000],
  ["30m", 1_800_000],
  ["24h", 86_400_000],
])("a duration of %s is %i ms", (text, ms) => {
  expect(loadConfig({ SUBAGENT_MAX_DURATION: text }).limits).toEqual({ max_duration_ms: ms });
});

test("what may be secret is never shown in a refusal", () => {
  const { message } = refusalOf({
    ANTHROPIC_API_KEY: "sk-canary 1",
    REDIS_URL: "redis:user:canary@host",
    ANTHROPIC_BASE_URL: "gopher://me:canary@x",
  });
  expect(message).not.toContain("canary");
});

test("a long value is shown shortened, and control characters as escapes", () => {
  const { message } = refusalOf({ SUBAGENT_TRACE: `\u001b[31m${"x".repeat(10_000)}` });
  expect(message.length).toBeLessThan(200);
  expect(message).toContain("\\u001b");
});

test("prices come from a file or from the variable itself, and a wrong entry is named", () => {
  const text = '{"m":{"input":1,"output":2,"cache_read":0,"cache_write":0}}';
  const fromFile = loadConfig(
    { SUBAGENT_PRICES: "prices.json" },
    { cwd: "/srv", readText: (path) => (path === "/srv/prices.json" ? text : "") },
  );
  expect(fromFile.prices).toEqual(JSON.parse(text));
  expect(refusalOf({ SUBAGENT_PRICES: '{"m":{"input":-1}}' }).message).toContain(
    "m.input: must be at least 0",
  );
  expect(refusalOf({ SUBAGENT_PRICES: "{oops" }).message).toContain("JSON");
});

test("a misspelt variable of ours is reported, others are none of our business", () => {
  expect(loadConfig({ SUBAGENT_MAX_COST: "1", HOME: "/root" }).unknownVariables).toEqual([
    "SUBAGENT_MAX_COST",
  ]);
});

test(".env.example names every variable once, and its sample values are accepted together", () => {
  const text = readFileSync(join(import.meta.dirname, "../../../.env.example"), "utf8");
  const lines = [...text.matchAll(/^#?([A-Z][A-Z_]+)=(.*)$/gm)];
  expect(lines.map(([, name]) => name).sort()).toEqual(Object.keys(Variables.shape).sort());
  expect(Object.keys(EXPECTED).sort()).toEqual(Object.keys(Variables.shape).sort());
  const env = Object.fromEntries(lines.map(([, name, value]) => [name, value]));
  const sample = /^# (\{.*\})$/m.exec(text)?.[1] ?? "";
  const config = loadConfig(env, { readText: () => sample });
  expect(config.unknownVariables).toEqual([]);
  expect(Object.keys(config.prices)).toEqual(["my-model"]);
  expect(text).toContain(`in one worker process, 1 to ${MAX_CONCURRENCY}.`);
  for (const [, name] of lines) {
    const before = text.slice(0, text.search(new RegExp(`^#?${name}=`, "m"))).trimEnd();
    expect(before.split("\n").at(-1), `a comment above ${name}`).toMatch(/^# \S/);
  }
});

test.each(["production", "PRODUCTION", "Production "])(
  "NODE_ENV=%j switches the production checks on",
  (text) => {
    expect(loadConfig({ NODE_ENV: text }, { cwd: "/x" }).production).toBe(true);
    expect(loadConfig({ NODE_ENV: `${text}-2` }, { cwd: "/x" }).production).toBe(false);
  },
);
