/** The sub-agent's side: run a worker, define tools. Published as `subagent-queue/worker`. */
export { ERRORS, type ErrorCode, SubagentError } from "../shared/errors.ts";
export { createLogger, type Logger, type LogLevel } from "../shared/logger.ts";
export { type AnthropicModelOptions, createAnthropicModel } from "./model/anthropic.ts";
export type { Model, ModelOutcome, ModelRequest, ModelTurn } from "./model/model.ts";
export { createBaseTools } from "./tools/builtin/base-tools.ts";
export { type OpenRoot, parseRoots } from "./tools/roots.ts";
export { defineTool, type Tool, type ToolContext, ToolFailure } from "./tools/tool.ts";
export { createWorker, type SubagentWorker } from "./worker.ts";
export { DEFAULT_CONCURRENCY, type WorkerOptions } from "./worker-options.ts";
