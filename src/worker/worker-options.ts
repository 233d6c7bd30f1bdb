/** The options of a worker, checked as a whole before anything is opened. */
import { isAbsolute } from "node:path";
import type { Clock } from "../shared/clock.ts";
import { SubagentError } from "../shared/errors.ts";
import type { Logger } from "../shared/logger.ts";
import { McpServers, type McpServersInput } from "../shared/mcp-server.ts";
import type { Timing } from "../shared/protocol/limits.ts";
import { PermissionRules } from "../shared/protocol/permissions.ts";
import type { PriceOverrides } from "../shared/protocol/usage.ts";
import { parseRedisUrl } from "../shared/redis-url.ts";
import { type Hook, hookProblems } from "./hooks/hook.ts";
import type { IsolationProgram } from "./isolation-processes.ts";
import type { Model } from "./model/model.ts";
import type { SkillLibrary } from "./skills/library.ts";
import type { OpenRoot } from "./tools/roots.ts";
import type { Tool } from "./tools/tool.ts";

/** Runs that go on side by side in one process, unless said otherwise. */
export const DEFAULT_CONCURRENCY = 50;

/** What a worker is made of. */
export interface WorkerOptions {
  /** `redis://…`, `rediss://…`, `unix:///…`, or `redis+cluster://…` with some nodes of a cluster. */
  redisUrl: string;
  /** Prefix of all keys, default `saq`; producers use the same. */
  prefix?: string;
  /** The model port; stays the caller's to stop. */
  model: Model;
  /** Id of the model that parents without one of their own may ask for; announced, default none. */
  modelId?: string;
  /** Custom tools besides the base ones (`read_file`, `write_file`, `edit_file`, `glob`, `grep`). */
  tools?: readonly Tool[];
  /** Skills for its agents, as `openSkills` read them. */
  skills?: SkillLibrary;
  /** What tools of every agent may do, before what profiles, definitions and spawns say. */
  permissions?: PermissionRules;
  /** Called around tool calls and runs. */
  hooks?: readonly Hook[];
  /**
   * MCP servers by name: their tools are `mcp__<server>__<tool>`. A server is started with the first call and shared by all
   * runs.
   */
  mcpServers?: McpServersInput;
  /** Directories open to the tools besides each agent's workspace. */
  roots?: readonly OpenRoot[];
  /** Host directory of all workspaces, shared by all hosts of an installation. */
  workspaceRoot: string;
  /** Runs side by side in this process, default 50. */
  concurrency?: number;
  /** How long model calls and tools may go on after `stop`, ms; then they are cut off. Default 10,000. */
  drainGraceMs?: number;
  /**
   * Ends the whole process with SIGKILL and a line on stderr when its event loop stands still for a lease (10 s), so that
   * a tool that never returns cannot freeze a worker; never while a debugger is attached. Default false: the process is the
   * caller's. `subagent-queue worker` has it on.
   */
  watchdog?: boolean;
  /**
   * The program that runs suspects, runs that two workers in a row did not survive, in processes of their own, while this
   * worker goes on: it makes a worker with the same options and `isolated: true`, and starts it. Suspects take a quarter of
   * the places at most. Absent: a suspect gets this whole process to itself, which costs the other runs a turn.
   */
  isolation?: IsolationProgram;
  /** This process was started by a worker's `isolation`: it takes its runs from there, and ends with it. Default false. */
  isolated?: boolean;
  /** Prices by model id, over the built-in table. */
  prices?: PriceOverrides;
  /** Production mode: a Redis that may lose accepted work is refused at the start. Default false: a warning. */
  strict?: boolean;
  /** `full` writes each conversation as JSON lines beside the agent's workspace; default `off`. */
  trace?: "off" | "full";
  /** Whether figures are kept for `metrics()`; default false. */
  metrics?: boolean;
  /** Whether the model's provider is sent the `traceparent` of each call; default false. */
  sendTraceparent?: boolean;
  logger?: Logger;
  clock?: Clock;
  timing?: Timing;
  /** A number in [0, 1); default `Math.random`. */
  random?: () => number;
}

const LARGEST_CONCURRENCY = 5_000;
const KNOWN: Record<keyof WorkerOptions, true> = {
  redisUrl: true,
  prefix: true,
  model: true,
  modelId: true,
  tools: true,
  mcpServers: true,
  skills: true,
  permissions: true,
  hooks: true,
  roots: true,
  workspaceRoot: true,
  concurrency: true,
  drainGraceMs: true,
  watchdog: true,
  isolation: true,
  isolated: true,
  prices: true,
  strict: true,
  trace: true,
  metrics: true,
  sendTraceparent: true,
  logger: true,
  clock: true,
  timing: true,
  random: true,
};

/** Throws `invalid_config` that names every option that cannot be used, and what it should be. */
export function checkWorkerOptions(options: WorkerOptions): void {
  const given: Partial<WorkerOptions> = options ?? {};
  const { model, workspaceRoot, concurrency = 1, drainGraceMs = 0 } = given;
  const problems = Object.keys(given)
    .filter((name) => !(name in KNOWN))
    .map((name) => `${name} is no option of a worker`);
  if (typeof model?.call !== "function")
    problems.push("model is missing: give createAnthropicModel({ apiKey })");
  if (typeof workspaceRoot !== "string" || !isAbsolute(workspaceRoot)) {
    problems.push("workspaceRoot must be the absolute path of a directory");
  }
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > LARGEST_CONCURRENCY) {
    problems.push(`concurrency must be a whole number from 1 to ${LARGEST_CONCURRENCY}`);
  }
  if (!Number.isFinite(drainGraceMs) || drainGraceMs < 0) problems.push("drainGraceMs must be 0 or more");
  const mcp = McpServers.safeParse(given.mcpServers ?? {});
  if (!mcp.success) problems.push(`mcpServers: ${mcp.error.issues[0]?.message}`);
  if (given.permissions && !PermissionRules.safeParse(given.permissions).success)
    problems.push('permissions must be rules such as { deny: ["bash(rm *)"] }');
  problems.push(...hookProblems(given.hooks ?? []));
  if (typeof given.redisUrl !== "string") problems.push("redisUrl is missing, e.g. redis://127.0.0.1:6379");
  if (problems.length > 0) {
    throw new SubagentError("invalid_config", `The worker cannot be made: ${problems.join("; ")}.`, {
      problems,
    });
  }
  parseRedisUrl(options.redisUrl);
}
