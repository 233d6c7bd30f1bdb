/** The options of a worker, checked as a whole before anything is opened. */
import { isAbsolute } from "node:path";
import { z } from "zod";
import { CLOCK_FORM, type Clock, hasMethods, isClock } from "../shared/clock.ts";
import { isLogger, LOGGER_FORM, type Logger } from "../shared/logger.ts";
import { McpServers, type McpServersInput } from "../shared/mcp-server.ts";
import { FLAG, isText, type OptionForms, optionProblems, PREFIX, refuseProblems } from "../shared/options.ts";
import { problemText, wordingOf } from "../shared/problem-text.ts";
import { isTiming, MAX_CONCURRENCY, TIMING_FORM, type Timing } from "../shared/protocol/limits.ts";
import { PermissionRules } from "../shared/protocol/permissions.ts";
import { PriceOverrides } from "../shared/protocol/usage.ts";
import type { WorkerAnnouncement } from "../shared/protocol/worker.ts";
import { parseRedisUrl } from "../shared/redis-url.ts";
import { type Hook, hookProblems } from "./hooks/hooks.ts";
import type { IsolationProgram } from "./isolation-processes.ts";
import type { Model } from "./model/model.ts";
import type { SkillLibrary } from "./skills/library.ts";
import type { OpenRoot } from "./tools/roots.ts";
import type { Tool } from "./tools/tool.ts";

/** Default number of concurrent runs in one process. */
export const DEFAULT_CONCURRENCY = 50;

/** Options of a worker. */
export interface WorkerOptions {
  /** `redis://…`, `rediss://…`, `unix:///…`, or `redis+cluster://…` with some nodes of a cluster. */
  redisUrl: string;
  /** Prefix of all keys, default `saq`; producers must use the same one. */
  prefix?: string;
  /** The model port. The worker does not stop it; the caller does. */
  model: Model;
  /**
   * Called by `start` once Redis answers, before this worker takes or announces anything. Receives the live workers of the
   * installation. If it throws, `start` rejects with that error. Not called with `isolated`. Default: none.
   */
  admit?: (live: readonly WorkerAnnouncement[]) => void;
  /** Id of the model for parents that name none; announced. Default: none. */
  modelId?: string;
  /**
   * Custom tools besides the base ones (`read_file`, `write_file`, `edit_file`, `glob`, `grep`, `send_agent_message`,
   * `ask_parent`).
   */
  tools?: readonly Tool[];
  /** Skills for the worker's agents, as read by `openSkills`. */
  skills?: SkillLibrary;
  /** Permission rules for the tools of every agent; applied before the rules of profiles, definitions and spawns. */
  permissions?: PermissionRules;
  /** Hooks called around tool calls and runs. */
  hooks?: readonly Hook[];
  /**
   * MCP servers by name. Their tools are named `mcp__<server>__<tool>`. A server starts at its first call; all runs share
   * it.
   */
  mcpServers?: McpServersInput;
  /** Directories open to the tools besides each agent's workspace. */
  roots?: readonly OpenRoot[];
  /** Host directory of all workspaces, shared by all hosts of an installation. */
  workspaceRoot: string;
  /** Concurrent runs in this process, default 50. */
  concurrency?: number;
  /** Time that model calls and tools may continue after `stop`, ms; then they are aborted. Default 10,000. */
  drainGraceMs?: number;
  /**
   * Ends the whole process with SIGKILL and a line on stderr if its event loop is blocked for a lease (10 s): a tool that
   * never returns cannot freeze a worker. Never while a debugger is attached. Default false, because the process is the
   * caller's. `subagent-queue worker` turns it on.
   */
  watchdog?: boolean;
  /**
   * The program that runs suspects (runs in which two workers in a row crashed, or one while a tool ran) in separate
   * processes while this worker continues. It creates a worker with the same options and `isolated: true`, and starts it.
   * Suspects take at most a quarter of the slots. Absent: a run in which two workers in a row crashed gets this whole process to
   * itself, which costs the other runs a turn.
   */
  isolation?: IsolationProgram;
  /** True in a process that a worker's `isolation` started: it gets its runs from it and ends with it. Default false. */
  isolated?: boolean;
  /** Prices by model id; they override the built-in table. */
  prices?: PriceOverrides;
  /** Production mode: `start` rejects if Redis may lose accepted work. Default false: it only warns. */
  strict?: boolean;
  /** `full` writes each conversation as JSON lines beside the agent's workspace; default `off`. */
  trace?: "off" | "full";
  /** True if metrics are collected for `metrics()`; default false. */
  metrics?: boolean;
  /** True if model calls send a `traceparent` header to the provider; default false. */
  sendTraceparent?: boolean;
  logger?: Logger;
  clock?: Clock;
  timing?: Timing;
  /** A number in [0, 1); default `Math.random`. */
  random?: () => number;
}

const isObject = (value: unknown) => typeof value === "object" && value !== null;
const isList = (value: unknown) => Array.isArray(value) && value.every(isObject);

const ToolParts = z.object({
  name: z.string(),
  description: z.string(),
  inputSchema: z.object({}),
  timeoutMs: z.number().positive(),
});
const isTool = (value: unknown) => hasMethods(value, ["check", "run"]) && ToolParts.safeParse(value).success;

/** The form of each option, as the end of "… must be …". All but three are optional. */
const FORMS: OptionForms<WorkerOptions> = {
  redisUrl: [isText, "the address of a Redis, e.g. redis://127.0.0.1:6379"],
  prefix: PREFIX,
  model: [(value) => hasMethods(value, ["call"]), "a model: give createAnthropicModel({ apiKey })"],
  admit: [(value) => typeof value === "function", "a function"],
  modelId: [isText, "the id of a model"],
  tools: [(value) => isList(value) && value.every(isTool), "a list of tools, each made with defineTool"],
  skills: [(value) => hasMethods(value, ["read"]), "what openSkills resolves to"],
  permissions: [
    (value) => PermissionRules.safeParse(value).success,
    'rules such as { deny: ["bash(rm *)"] }',
  ],
  hooks: [isList, "a list of hooks"],
  mcpServers: [isObject, "servers by name"],
  roots: [isList, "a list of directories, each with path, realPath and mode"],
  workspaceRoot: [
    (value) => typeof value === "string" && isAbsolute(value),
    "the absolute path of a directory",
  ],
  concurrency: [
    (value) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX_CONCURRENCY,
    `a whole number from 1 to ${MAX_CONCURRENCY}`,
  ],
  drainGraceMs: [(value) => Number.isFinite(value) && Number(value) >= 0, "0 or more milliseconds"],
  watchdog: FLAG,
  isolation: [
    (value) => typeof value === "object" && value !== null && "file" in value && isText(value.file),
    "a program: { file, args }",
  ],
  isolated: FLAG,
  prices: [
    (value) => PriceOverrides.safeParse(value).success,
    "prices by model id, USD per million tokens: { input, output, cache_read, cache_write }",
  ],
  strict: FLAG,
  trace: [(value) => value === "off" || value === "full", "off or full"],
  metrics: FLAG,
  sendTraceparent: FLAG,
  logger: [isLogger, LOGGER_FORM],
  clock: [isClock, CLOCK_FORM],
  timing: [isTiming, TIMING_FORM],
  random: [(value) => typeof value === "function", "a function that answers a number in [0, 1)"],
};
const REQUIRED: ReadonlySet<string> = new Set(["redisUrl", "model", "workspaceRoot"]);

/** Throws `invalid_config` that names every invalid option and its expected form. */
export function checkWorkerOptions(options: WorkerOptions): void {
  const problems = [
    ...optionProblems(options, FORMS, { maker: "a worker", required: REQUIRED }),
    ...(isList(options?.hooks) ? hookProblems(options.hooks ?? []) : []),
    ...mcpProblems(options?.mcpServers),
  ];
  refuseProblems("The worker", problems);
  parseRedisUrl(options.redisUrl);
}

function mcpProblems(servers: unknown): string[] {
  const { error } = McpServers.safeParse(isObject(servers) ? servers : {}, { error: wordingOf });
  return error ? [`mcpServers: ${problemText(error, "they")}`] : [];
}
