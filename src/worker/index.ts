/** The worker's API: run a worker, define tools. Published as `subagent-queue/worker`. */

export type { Clock } from "../shared/clock.ts";
export { ERRORS, type ErrorCode, type FailureReason, SubagentError, ToolFailure } from "../shared/errors.ts";
export { createLogger, type Logger, type LogLevel, type LogSink } from "../shared/logger.ts";
export type { McpServersInput } from "../shared/mcp-server.ts";
export type { ContentBlock, Usage } from "../shared/protocol/content.ts";
export type { Timing } from "../shared/protocol/limits.ts";
export type { PermissionRules } from "../shared/protocol/permissions.ts";
export type { Price, PriceOverrides } from "../shared/protocol/usage.ts";
export type { WorkerAnnouncement } from "../shared/protocol/worker.ts";
export type { Readiness } from "./health/readiness.ts";
export type {
  Hook,
  HookAnswer,
  HookedAgent,
  HookedCall,
  HookVerdict,
  PostToolUseVerdict,
  PreToolUseVerdict,
} from "./hooks/hooks.ts";
export type { IsolationProgram } from "./isolation-processes.ts";
export { type AnthropicModelOptions, createAnthropicModel } from "./model/anthropic/model.ts";
export type {
  CallControl,
  CallOutcome,
  FailureKind,
  Model,
  ModelAnswer,
  ModelFailure,
  ModelRequest,
} from "./model/model.ts";
export type { Scrape } from "./observe/metrics.ts";
export { openSkills, type Skill, type SkillLibrary, type SkillProblem } from "./skills/library.ts";
export { bashTool, type NetworkLog } from "./tools/builtin/bash.ts";
export { createBaseTools } from "./tools/builtin/index.ts";
export { type OpenRoot, type ParsedRoots, parseRoots } from "./tools/roots.ts";
export {
  type BashMode,
  chooseRunner,
  type RunnerChoice,
  type RunnerOptions,
} from "./tools/sandbox/choose.ts";
export type { Command, CommandOutcome, Killed, NetworkUse, Runner } from "./tools/sandbox/runner.ts";
export {
  defineTool,
  type InputCheck,
  type JsonSchemaObject,
  type Tool,
  type ToolContent,
  type ToolContext,
  type ToolDefinition,
} from "./tools/tool.ts";
export type { Area, Workspace } from "./tools/workspace.ts";
export { createWorker, type SubagentWorker } from "./worker.ts";
export { DEFAULT_CONCURRENCY, type WorkerOptions } from "./worker-options.ts";
