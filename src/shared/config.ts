/** Configuration. The only module that reads the environment; it checks all variables at once, before anything starts. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { parseRanges } from "./address-range.ts";
import { messageOf, SubagentError } from "./errors.ts";
import { LOG_LEVELS, type LogLevel } from "./logger.ts";
import { type McpServers, readMcpServers } from "./mcp-server.ts";
import { problemText, wordingOf } from "./problem-text.ts";
import { ParentId, Prefix, TenantId } from "./protocol/ids.ts";
import {
  type Budgets,
  CEILING,
  COST_USD_FORM,
  CostUsdText,
  type LimitsInput,
  MAX_CONCURRENCY,
  MOST_KEPT_TIMELINES,
  TIMING,
  type Timing,
} from "./protocol/limits.ts";
import { jsonIn, quoted } from "./protocol/text.ts";
import { DAY_MS, PriceOverrides } from "./protocol/usage.ts";
import { isRedisUrl, REDIS_URL_FORMS } from "./redis-url.ts";
import { keepSecretsOfEnvironment } from "./secrets.ts";

/** Environment variables by name, as the operating system provides them. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Settings of the program. An absent value was not set. */
export interface Config {
  redisUrl?: string;
  /** Absent: no provider is configured, the offline model answers. */
  provider?: { apiKey?: string; baseUrl?: string };
  /** Model of every agent whose parent does not name one. */
  model: string;
  /** True if `model` is the value of SUBAGENT_MODEL. */
  isModelSet: boolean;
  /** First part of every Redis name. */
  prefix: string;
  tenant: string;
  /** Parent as which the commands of the CLI act. */
  parentId: string;
  /** Directories open to sub-agents, as written: `/srv/repo:ro,/data:rw`. */
  roots?: string;
  /** Absolute paths of the folders with agent definitions. */
  agents: string[];
  /** Absolute paths of the folders with skills. */
  skills: string[];
  /** Absolute path under which the agents' workspaces lie. */
  workspaceRoot: string;
  /** Maximum number of concurrent runs in one worker process. */
  concurrency: number;
  /** Port on which a worker answers health checks; absent: none. */
  healthPort?: number;
  /** Key of the LangGraph server whose threads the API calls back. */
  callbackKey?: string;
  /** The operator's limits; callers may narrow them and never widen them. */
  limits: LimitsInput;
  /** The operator's budgets: the most that each agent, each parent, and the tenant in a window may spend. */
  budgets: Budgets;
  /** The operator's own prices by model id. */
  prices: PriceOverrides;
  /** Durations of the protocol, with the operator's retention. */
  timing: Timing;
  /** Absent: each command has a level of its own. */
  logLevel?: LogLevel;
  trace: "off" | "full";
  /** True if the provider gets the `traceparent` of each model call. */
  sendTraceparent: boolean;
  /** Mode in which `bash` runs commands; `unsandboxed` in production also needs `acceptRisk`. */
  bash: { mode: "sandboxed" | "bubblewrap" | "runsc" | "off" | "unsandboxed"; acceptRisk: boolean };
  /** Hosts that commands may reach, and address ranges beside the public internet, as written; default: no network. */
  egress: { hosts: string; ranges?: string | undefined } | undefined;
  /** MCP servers whose tools sub-agents get. */
  mcpServers: McpServers;
  /** True if the production checks are on: NODE_ENV is `production`, in any case. */
  production: boolean;
  /** Variables that begin with SUBAGENT_ and are unknown to this version: most likely misspelt. */
  unknownVariables: string[];
}

/** External dependencies of loading a configuration; tests pass their own. */
export interface ConfigSources {
  /** Base directory of relative paths; default: the working directory of the process. */
  cwd?: string;
  /** Reads a text file, or throws. */
  readText?: (path: string) => string;
  /** Returns the problem of SUBAGENT_ROOTS, as a sentence. The code that opens the directories checks them. */
  rootsProblem?: (text: string) => string | undefined;
}

/** One variable that cannot be used. */
export interface ConfigProblem {
  variable: VariableName;
  /** Text for people: the variable, its value unless that may be secret, and the expected form. */
  sentence: string;
}

/** Returns the environment of this process. */
export function processEnvironment(): Environment {
  return process.env;
}

/**
 * Reads and checks every variable; an empty one counts as not set. Throws `invalid_config` that names all wrong
 * variables at once, with `details.problems: ConfigProblem[]`. Values that may carry secrets are never shown.
 */
export function loadConfig(env: Environment, sources: ConfigSources = {}): Config {
  keepSecretsOfEnvironment(env);
  const texts: Partial<Record<VariableName, string>> = {};
  const names = Object.keys(Variables.shape) as VariableName[];
  for (const name of names) {
    const text = env[name]?.trim();
    if (text) texts[name] = text;
  }
  const problems: ConfigProblem[] = [];
  const report = (name: VariableName, why?: string) =>
    problems.push({ variable: name, sentence: sentenceAbout(name, texts[name] ?? "", why) });
  const parsed = Variables.safeParse(texts);
  const wrong = new Set(parsed.error?.issues.map((issue) => issue.path[0]));
  for (const name of names) if (wrong.has(name)) report(name);
  const roots = texts.SUBAGENT_ROOTS;
  const rootsProblem = roots && sources.rootsProblem?.(roots);
  if (rootsProblem) problems.push({ variable: "SUBAGENT_ROOTS", sentence: rootsProblem.replace(/\.$/, "") });
  const prices = readPrices(texts.SUBAGENT_PRICES, sources);
  if ("problem" in prices) report("SUBAGENT_PRICES", prices.problem);
  const mcp = readMcp(texts.SUBAGENT_MCP, env, sources);
  if ("problem" in mcp) report("SUBAGENT_MCP", mcp.problem);

  if (!parsed.success || "problem" in prices || "problem" in mcp || problems.length > 0)
    throw refusal(problems);
  const unknown = Object.keys(env).filter((name) => name.startsWith("SUBAGENT_") && !(name in EXPECTED));
  return configOf(
    parsed.data,
    { prices: prices.prices, mcpServers: mcp.servers },
    unknown,
    sources.cwd ?? process.cwd(),
  );
}

function configOf(
  variables: Variables,
  { prices, mcpServers }: Pick<Config, "prices" | "mcpServers">,
  unknownVariables: string[],
  cwd: string,
): Config {
  const { ANTHROPIC_API_KEY: apiKey, ANTHROPIC_BASE_URL: baseUrl } = variables;
  const { SUBAGENT_KEPT_AFTER_ACK: keptAfterAckMs, SUBAGENT_KEPT_TIMELINES: keptTimelines } = variables;
  const hasProvider = apiKey !== undefined || baseUrl !== undefined;
  const limits: LimitsInput = {
    max_turns: variables.SUBAGENT_MAX_TURNS,
    max_tokens: variables.SUBAGENT_MAX_TOKENS,
    max_duration_ms: variables.SUBAGENT_MAX_DURATION,
    max_total_tokens: variables.SUBAGENT_MAX_TOTAL_TOKENS,
    max_cost_usd: variables.SUBAGENT_MAX_COST_USD,
  };
  return {
    redisUrl: variables.REDIS_URL,
    provider: hasProvider ? { apiKey, baseUrl } : undefined,
    model: variables.SUBAGENT_MODEL ?? (hasProvider ? DEFAULT_MODEL : OFFLINE_MODEL),
    isModelSet: variables.SUBAGENT_MODEL !== undefined,
    prefix: variables.SUBAGENT_PREFIX,
    tenant: variables.SUBAGENT_TENANT,
    parentId: variables.SUBAGENT_PARENT,
    roots: variables.SUBAGENT_ROOTS,
    agents: variables.SUBAGENT_AGENTS.map((folder) => resolve(cwd, folder)),
    skills: variables.SUBAGENT_SKILLS.map((folder) => resolve(cwd, folder)),
    workspaceRoot: resolve(cwd, variables.SUBAGENT_WORKSPACES),
    concurrency: variables.SUBAGENT_CONCURRENCY,
    healthPort: variables.SUBAGENT_HEALTH_PORT,
    callbackKey: variables.SUBAGENT_CALLBACK_KEY,
    limits: Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)),
    budgets: budgetsOf(variables),
    prices,
    timing: { ...TIMING, keptAfterAckMs, keptTimelines },
    mcpServers,
    logLevel: variables.SUBAGENT_LOG_LEVEL,
    trace: variables.SUBAGENT_TRACE,
    sendTraceparent: variables.SUBAGENT_SEND_TRACEPARENT === "yes",
    bash: { mode: variables.SUBAGENT_BASH, acceptRisk: variables.SUBAGENT_BASH_ACCEPT_RISK === "yes" },
    egress:
      variables.SUBAGENT_EGRESS === undefined
        ? undefined
        : { hosts: variables.SUBAGENT_EGRESS, ranges: variables.SUBAGENT_EGRESS_RANGES },
    production: variables.NODE_ENV?.trim().toLowerCase() === "production",
    unknownVariables,
  };
}

function budgetsOf(variables: Variables): Budgets {
  const { SUBAGENT_BUDGET_AGENT_USD: agent, SUBAGENT_BUDGET_PARENT_USD: parent } = variables;
  const { SUBAGENT_BUDGET_TENANT_USD: tenant, SUBAGENT_BUDGET_WINDOW: window_ms } = variables;
  return {
    ...(agent !== undefined && { agent: { max_cost_usd: agent } }),
    ...(parent !== undefined && { parent: { max_cost_usd: parent } }),
    ...(tenant !== undefined && { tenant: { max_cost_usd: tenant, window_ms } }),
  };
}

function readPrices(
  text: string | undefined,
  sources: ConfigSources,
): { prices: PriceOverrides } | { problem: string } {
  if (text === undefined) return { prices: {} };
  try {
    const readText = sources.readText ?? ((path: string) => readFileSync(path, "utf8"));
    const json = jsonIn(text.startsWith("{") ? text : readText(resolve(sources.cwd ?? ".", text)));
    if (json === undefined) return { problem: "it is not JSON" };
    const parsed = PriceOverrides.safeParse(json, { error: wordingOf });
    return parsed.success ? { prices: parsed.data } : { problem: problemText(parsed.error) };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

function readMcp(
  text: string | undefined,
  env: Environment,
  sources: ConfigSources,
): { servers: McpServers } | { problem: string } {
  if (text === undefined) return { servers: {} };
  try {
    const readText = sources.readText ?? ((path: string) => readFileSync(path, "utf8"));
    return readMcpServers(text.startsWith("{") ? text : readText(resolve(sources.cwd ?? ".", text)), env);
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

const SHOWN_CHARS = 40;

/** Variables that hold a key, or that may hold a whole file with secrets in it. */
const SECRET: ReadonlySet<VariableName> = new Set([
  "ANTHROPIC_API_KEY",
  "SUBAGENT_CALLBACK_KEY",
  "SUBAGENT_PRICES",
  "SUBAGENT_MCP",
]);

function sentenceAbout(name: VariableName, value: string, why?: string): string {
  const secret = SECRET.has(name) || value.includes("@");
  const subject = secret ? name : `${name}=${quoted(value, SHOWN_CHARS)}`;
  return `${subject} cannot be used${why ? ` (${why})` : ""}: write ${EXPECTED[name]}`;
}

function refusal(problems: ConfigProblem[]): SubagentError {
  const sentence = `${problems.map((problem) => problem.sentence).join("; ")}.`;
  return new SubagentError("invalid_config", sentence, { problems });
}

// The environment variables: the form of each, its default, and its conversion.

/** Model used when a provider is configured and SUBAGENT_MODEL is not set. */
const DEFAULT_MODEL = "claude-sonnet-5-5";
/** Model id that is used if only the offline model is available. */
export const OFFLINE_MODEL = "offline-1";
/** First part of every Redis name when SUBAGENT_PREFIX is not set. */
export const DEFAULT_PREFIX = "saq";
/** Parent as which the CLI acts when SUBAGENT_PARENT is not set. */
const DEFAULT_PARENT = "cli";

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;
const DURATION = /^(\d{1,9})(ms|s|m|h)$/;

const whole = (max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .pipe(z.int().min(1).max(max));
const url = (...schemes: string[]) =>
  z.string().refine((text) => {
    if (!URL.canParse(text)) return false;
    const parsed = new URL(text);
    return schemes.includes(parsed.protocol) && parsed.hostname !== "";
  });
const durationMs = z
  .string()
  .regex(DURATION)
  .transform((text) => {
    const [, count, unit] = DURATION.exec(text) ?? [];
    return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
  })
  .pipe(z.int().min(1).max(CEILING.max_duration_ms));

const key = z.string().regex(/^[\x21\x23-\x26\x28-\x7e]{1,512}$/);
const KEY_FORM = "the key alone: no spaces, no quotes, at most 512 characters";

const MOST_FOLDERS = 32;
const hosts = z.string().regex(/^[^\s/@]+(,\s*[^\s/@]+)*$/);
const ranges = z.string().refine((text) => parseRanges(text) !== undefined);
const path = z.string().refine((text) => !text.includes("\0"));
const folders = path
  .default("")
  .transform((text) =>
    text
      .split(",")
      .map((folder) => folder.trim())
      .filter(Boolean),
  )
  .refine((paths) => paths.length <= MOST_FOLDERS);

/** Every variable that this program reads, with its form and default. */
export const Variables = z.object({
  REDIS_URL: z.string().refine(isRedisUrl).optional(),
  ANTHROPIC_API_KEY: key.optional(),
  ANTHROPIC_BASE_URL: url("http:", "https:").optional(),
  SUBAGENT_MODEL: z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/)
    .optional(),
  SUBAGENT_PREFIX: Prefix.default(DEFAULT_PREFIX),
  SUBAGENT_TENANT: TenantId.default("default"),
  SUBAGENT_PARENT: ParentId.default(DEFAULT_PARENT),
  SUBAGENT_ROOTS: z.string().optional(),
  SUBAGENT_AGENTS: folders,
  SUBAGENT_SKILLS: folders,
  SUBAGENT_WORKSPACES: path.default("./.subagent-queue/workspaces"),
  SUBAGENT_CONCURRENCY: whole(MAX_CONCURRENCY).default(50),
  SUBAGENT_HEALTH_PORT: whole(65_535).optional(),
  SUBAGENT_CALLBACK_KEY: key.optional(),
  SUBAGENT_MAX_TURNS: whole(CEILING.max_turns).optional(),
  SUBAGENT_MAX_TOKENS: whole(CEILING.max_tokens).optional(),
  SUBAGENT_MAX_DURATION: durationMs.optional(),
  SUBAGENT_MAX_TOTAL_TOKENS: whole(CEILING.max_total_tokens).optional(),
  SUBAGENT_MAX_COST_USD: CostUsdText.optional(),
  SUBAGENT_BUDGET_AGENT_USD: CostUsdText.optional(),
  SUBAGENT_BUDGET_PARENT_USD: CostUsdText.optional(),
  SUBAGENT_BUDGET_TENANT_USD: CostUsdText.optional(),
  SUBAGENT_BUDGET_WINDOW: durationMs.refine((ms) => ms >= 1_000).default(DAY_MS),
  SUBAGENT_KEPT_AFTER_ACK: durationMs.refine((ms) => ms >= 1_000).default(TIMING.keptAfterAckMs),
  SUBAGENT_KEPT_TIMELINES: whole(MOST_KEPT_TIMELINES).default(TIMING.keptTimelines),
  SUBAGENT_PRICES: z.string().optional(),
  SUBAGENT_MCP: z.string().optional(),
  SUBAGENT_LOG_LEVEL: z.enum(LOG_LEVELS).optional(),
  SUBAGENT_TRACE: z.enum(["off", "full"]).default("off"),
  SUBAGENT_SEND_TRACEPARENT: z.enum(["yes", "no"]).default("no"),
  SUBAGENT_BASH: z.enum(["sandboxed", "bubblewrap", "runsc", "off", "unsandboxed"]).default("sandboxed"),
  SUBAGENT_BASH_ACCEPT_RISK: z.enum(["yes", "no"]).default("no"),
  SUBAGENT_EGRESS: hosts.optional(),
  SUBAGENT_EGRESS_RANGES: ranges.optional(),
  NODE_ENV: z.string().optional(),
});
/** The values of {@link Variables}, checked and converted. */
export type Variables = z.infer<typeof Variables>;
/** The name of a variable this program reads. */
export type VariableName = keyof Variables;

const PRICES_EXAMPLE = '{"my-model": {"input": 1, "output": 5, "cache_read": 0.1, "cache_write": 1.25}}';

/** The form of a parent's id, as the end of "write …". */
export const PARENT_FORM =
  "1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit; not a sub-agent's uid";

/** Every variable and the form its value must have, as the end of "write …". */
export const EXPECTED: Readonly<Record<VariableName, string>> = {
  REDIS_URL: REDIS_URL_FORMS,
  ANTHROPIC_API_KEY: KEY_FORM,
  ANTHROPIC_BASE_URL: "http://host:port or https://host",
  SUBAGENT_MODEL: `a model id without spaces, e.g. ${DEFAULT_MODEL}`,
  SUBAGENT_PREFIX: "1 to 32 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit",
  SUBAGENT_TENANT: "1 to 64 characters of A-Z a-z 0-9 . _ -, starting with a letter or digit",
  SUBAGENT_PARENT: PARENT_FORM,
  SUBAGENT_ROOTS: "absolute directories with their modes, e.g. /srv/repo:ro,/data:rw",
  SUBAGENT_AGENTS: "folders with agent definitions, e.g. ./agents,/srv/agents",
  SUBAGENT_SKILLS: "folders whose folders hold a SKILL.md, e.g. ./skills,/srv/skills",
  SUBAGENT_WORKSPACES: "the path of a directory",
  SUBAGENT_CONCURRENCY: `a whole number from 1 to ${MAX_CONCURRENCY}`,
  SUBAGENT_HEALTH_PORT: "a port from 1 to 65535",
  SUBAGENT_CALLBACK_KEY: KEY_FORM,
  SUBAGENT_MAX_TURNS: `a whole number from 1 to ${CEILING.max_turns}`,
  SUBAGENT_MAX_TOKENS: `a whole number from 1 to ${CEILING.max_tokens}`,
  SUBAGENT_MAX_DURATION: "a duration of at most 24h, e.g. 30m, 90s or 500ms",
  SUBAGENT_MAX_TOTAL_TOKENS: `a whole number from 1 to ${CEILING.max_total_tokens}`,
  SUBAGENT_MAX_COST_USD: `${COST_USD_FORM}, e.g. 2.50`,
  SUBAGENT_BUDGET_AGENT_USD: `what one agent may spend in all its runs: ${COST_USD_FORM}`,
  SUBAGENT_BUDGET_PARENT_USD: `what all agents of a parent may spend: ${COST_USD_FORM}`,
  SUBAGENT_BUDGET_TENANT_USD: `what a tenant may spend in SUBAGENT_BUDGET_WINDOW: ${COST_USD_FORM}`,
  SUBAGENT_BUDGET_WINDOW: "a duration from 1s to 24h, e.g. 1h; the default is 24h",
  SUBAGENT_KEPT_AFTER_ACK: "a duration from 1s to 24h, e.g. 1h; the default is 24h",
  SUBAGENT_KEPT_TIMELINES: `a whole number from 1 to ${MOST_KEPT_TIMELINES}; the default is ${TIMING.keptTimelines}`,
  SUBAGENT_PRICES: `USD per million tokens as JSON or the path of a JSON file, e.g. ${PRICES_EXAMPLE}`,
  SUBAGENT_MCP:
    'the path of a JSON file, or JSON: {"mcpServers": {"files": {"command": "npx", "args": ["…"]}}}',
  SUBAGENT_LOG_LEVEL: `one of ${LOG_LEVELS.join(", ")}`,
  SUBAGENT_TRACE: "off or full",
  SUBAGENT_SEND_TRACEPARENT: "yes or no",
  SUBAGENT_BASH: "sandboxed, bubblewrap, runsc, off or unsandboxed",
  SUBAGENT_BASH_ACCEPT_RISK: "yes or no",
  SUBAGENT_EGRESS: "hosts that commands may reach, e.g. registry.npmjs.org,*.github.com,git.example.com:8443",
  SUBAGENT_EGRESS_RANGES: "ranges of addresses beside the public internet, e.g. 10.0.0.0/8,fd00::/8",
  NODE_ENV: "any text; production switches the production checks on",
};
