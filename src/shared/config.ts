/** Configuration: the only reader of the environment. All variables are checked at once, before anything starts. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf, SubagentError } from "./errors.ts";
import type { LogLevel } from "./logger.ts";
import type { LimitsWish } from "./protocol/limits.ts";
import { PriceOverrides } from "./protocol/pricing.ts";
import { DEFAULT_MODEL, EXPECTED, OFFLINE_MODEL, type VariableName, Variables } from "./variables.ts";

/** Variables by name, as the operating system hands them over. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What the program is told to do. Absent values mean that nothing was set. */
export interface Config {
  redisUrl?: string;
  /** Absent: nobody configured a provider, the offline model answers. */
  provider?: { apiKey?: string; baseUrl?: string };
  /** Model of every agent whose parent does not name one. */
  model: string;
  /** First part of every Redis name. */
  prefix: string;
  tenant: string;
  /** The parent that the verbs of the command line act as. */
  parentId: string;
  /** Directories open to sub-agents, as written: `/srv/repo:ro,/data:rw`. */
  roots?: string;
  /** Absolute path under which the agents' workspaces lie. */
  workspaceRoot: string;
  /** Most runs at a time in one worker process. */
  concurrency: number;
  /** Where a worker answers health checks; absent: nowhere. */
  healthPort?: number;
  /** The operator's ceiling: what callers may narrow and never widen. */
  limits: LimitsWish;
  /** The operator's own prices by model id. */
  prices: PriceOverrides;
  /** Absent: each command has a level of its own. */
  logLevel?: LogLevel;
  trace: "off" | "full";
  /** Whether the production checks are on: NODE_ENV is `production`. */
  production: boolean;
  /** Variables that begin with SUBAGENT_ and mean nothing to this version: most likely misspelt. */
  unknownVariables: string[];
}

/** What reading a configuration needs from outside; tests hand in their own. */
export interface ConfigSources {
  /** Directory that relative paths start from; default the process' own. */
  cwd?: string;
  /** Reads a text file, or throws. */
  readText?: (path: string) => string;
  /** What is wrong with SUBAGENT_ROOTS, as a sentence; the directories are judged by those who open them. */
  rootsProblem?: (text: string) => string | undefined;
}

/** One variable that cannot be used. */
export interface ConfigProblem {
  variable: VariableName;
  /** Ready for people: the variable, its value unless that may be secret, and what to write instead. */
  sentence: string;
}

/** The environment of this process. */
export function processEnvironment(): Environment {
  return process.env;
}

/**
 * Reads and checks every variable; an empty one counts as not set. Throws `invalid_config` that names all wrong
 * variables at once, with `details.problems: ConfigProblem[]`. Values that may carry secrets are never shown.
 */
export function loadConfig(env: Environment, sources: ConfigSources = {}): Config {
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
  if (rootsProblem) problems.push({ variable: "SUBAGENT_ROOTS", sentence: withoutFullStop(rootsProblem) });
  const prices = readPrices(texts.SUBAGENT_PRICES, sources);
  if ("problem" in prices) report("SUBAGENT_PRICES", prices.problem);

  if (!parsed.success || "problem" in prices || problems.length > 0) throw refusal(problems);
  const unknown = Object.keys(env).filter((name) => name.startsWith("SUBAGENT_") && !(name in EXPECTED));
  return configOf(parsed.data, prices.prices, unknown, sources.cwd ?? process.cwd());
}

function configOf(
  variables: Variables,
  prices: PriceOverrides,
  unknownVariables: string[],
  cwd: string,
): Config {
  const { ANTHROPIC_API_KEY: apiKey, ANTHROPIC_BASE_URL: baseUrl } = variables;
  const hasProvider = apiKey !== undefined || baseUrl !== undefined;
  const limits: LimitsWish = {
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
    prefix: variables.SUBAGENT_PREFIX,
    tenant: variables.SUBAGENT_TENANT,
    parentId: variables.SUBAGENT_PARENT,
    roots: variables.SUBAGENT_ROOTS,
    workspaceRoot: resolve(cwd, variables.SUBAGENT_WORKSPACES),
    concurrency: variables.SUBAGENT_CONCURRENCY,
    healthPort: variables.SUBAGENT_HEALTH_PORT,
    limits: Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)),
    prices,
    logLevel: variables.SUBAGENT_LOG_LEVEL,
    trace: variables.SUBAGENT_TRACE,
    production: variables.NODE_ENV === "production",
    unknownVariables,
  };
}

function readPrices(
  text: string | undefined,
  sources: ConfigSources,
): { prices: PriceOverrides } | { problem: string } {
  if (text === undefined) return { prices: {} };
  try {
    const readText = sources.readText ?? ((path: string) => readFileSync(path, "utf8"));
    const json = text.startsWith("{") ? text : readText(resolve(sources.cwd ?? ".", text));
    const parsed = PriceOverrides.safeParse(JSON.parse(json));
    if (parsed.success) return { prices: parsed.data };
    const issue = parsed.error.issues[0];
    return { problem: `${issue?.path.join(".")}: ${issue?.message}` };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

const SHOWN_CHARS = 40;

function sentenceAbout(name: VariableName, value: string, why?: string): string {
  const secret = name === "ANTHROPIC_API_KEY" || value.includes("@") || name === "SUBAGENT_PRICES";
  const shown = value.length > SHOWN_CHARS ? `${value.slice(0, SHOWN_CHARS)}…` : value;
  const subject = secret ? name : `${name}=${JSON.stringify(shown)}`;
  return `${subject} cannot be used${why ? ` (${why})` : ""}: write ${EXPECTED[name]}`;
}

function withoutFullStop(sentence: string): string {
  return sentence.replace(/\.$/, "");
}

function refusal(problems: ConfigProblem[]): SubagentError {
  const sentence = `${problems.map((problem) => problem.sentence).join("; ")}.`;
  return new SubagentError("invalid_config", sentence, { problems });
}
