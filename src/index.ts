/** The parent's side of subagent-queue: hand work to sub-agents, get their replies. Workers: `subagent-queue/worker`. */
export type { AnswerReceipt } from "./producer/answering.ts";
export { type Client, type ClientOptions, createClient } from "./producer/client.ts";
export type { NewReplies } from "./producer/forwarding.ts";
export type { DestroyReceipt, FinishReceipt, SendReceipt } from "./producer/managing.ts";
export {
  createParent,
  type IterationOptions,
  type Parent,
  type ParentOptions,
  type TaskOptions,
} from "./producer/parent.ts";
export type { ReceivedEntry } from "./producer/received-entry.ts";
export type { SpawnInput, TaskInput } from "./producer/spawn-arguments.ts";
export type { SpawnReceipt } from "./producer/spawning.ts";
export type { ParentToolName } from "./producer/tool-inputs.ts";
export {
  answerToolUse,
  type ParentTool,
  type ToolResult,
  type ToolRunContext,
  type ToolUse,
} from "./producer/tools.ts";
export type { WaitOptions } from "./producer/waiting.ts";
export type { WorkspaceFile } from "./producer/workspace-files.ts";
export type { Clock } from "./shared/clock.ts";
export { ERRORS, type ErrorCode, SubagentError } from "./shared/errors.ts";
export { createLogger, type Logger, type LogLevel } from "./shared/logger.ts";
export type { AgentStatus, AgentView, EndedReason } from "./shared/protocol/agent.ts";
export type { ProgressEvent } from "./shared/protocol/event.ts";
export {
  type AlertThresholds,
  CEILING,
  type Limits,
  type LimitsWish,
  SPAWN_LIMITS,
  TASK_LIMITS,
} from "./shared/protocol/limits.ts";
export { type Price, type PriceOverrides, priceOf } from "./shared/protocol/pricing.ts";
export type {
  Alert,
  ChannelEntry,
  Interim,
  Question,
  Reply,
  ReplyBody,
  ReplyStatus,
  StopReason,
} from "./shared/protocol/reply.ts";
export { TIMING, type Timing } from "./shared/protocol/timing.ts";
export type { UsageTotals } from "./shared/protocol/usage.ts";
export type { PauseState } from "./shared/redis/pause.ts";
