/** The public API for parents: give work to sub-agents and get their replies. Workers: `subagent-queue/worker`. */
export type { AnswerReceipt, DestroyReceipt, FinishReceipt, SendReceipt } from "./producer/agents.ts";
export { type Client, createClient } from "./producer/client.ts";
export type { ActiveParent, ClientOptions } from "./producer/client-resources.ts";
export type { EventOptions, NumberedEvent } from "./producer/events.ts";
export type { MessageOptions, ProfileInput } from "./producer/input.ts";
export type { NewReplies } from "./producer/model-replies.ts";
export type { ParentToolName } from "./producer/model-tools.ts";
export {
  answerToolUse,
  type ParentTool,
  type ToolResult,
  type ToolRunContext,
  type ToolUse,
} from "./producer/model-tools.ts";
export {
  createParent,
  type Parent,
  type ParentOptions,
  type RepliesOptions,
} from "./producer/parent.ts";
export type { LeaseOptions } from "./producer/parent-lease.ts";
export type { ProfileReceipt, ProfileView } from "./producer/registered-profile.ts";
export type { ReceivedEntry } from "./producer/replies/parent-channel.ts";
export type { ScheduleInput, ScheduleView } from "./producer/schedules.ts";
export type { SpawnReceipt } from "./producer/spawn.ts";
export type {
  AnswerQuestions,
  SpawnInput,
  TaskInput,
  TaskOptions,
  TypedReply,
  WithZod,
} from "./producer/spawn-input.ts";
export type { TaskHandle } from "./producer/task.ts";
export type { OnWait, TaskWait } from "./producer/task-wait-reasons.ts";
export type { ResumeOptions, ResumeReceipt, Transcript, TranscriptOptions } from "./producer/transcript.ts";
export type { WaitOptions } from "./producer/wait.ts";
export type { ParentWebhook, WebhookInput } from "./producer/webhook.ts";
export type { Clock } from "./shared/clock.ts";
export { ERRORS, type ErrorCode, SubagentError } from "./shared/errors.ts";
export { createLogger, type Logger, type LogLevel, type LogSink } from "./shared/logger.ts";
export type {
  AgentStatus,
  AgentView,
  EndedReason,
  InForce,
  ProviderWait,
  VisibleStatus,
} from "./shared/protocol/agent.ts";
export type {
  AgentDefinition,
  DefinitionProblem,
  Definitions,
  FoundDefinition,
} from "./shared/protocol/definition.ts";
export type { Budgets, Effort } from "./shared/protocol/limits.ts";
export {
  type AlertThresholds,
  CEILING,
  type Limits,
  type LimitsInput,
  SPAWN_LIMITS,
  TASK_LIMITS,
  TIMING,
  type Timing,
} from "./shared/protocol/limits.ts";
export type { FileInput, ImageInput } from "./shared/protocol/message.ts";
export { isPermissionQuestion, type OpenQuestion } from "./shared/protocol/message.ts";
export type { OutputSchema } from "./shared/protocol/output.ts";
export type { PermissionRules } from "./shared/protocol/permissions.ts";
export type {
  Alert,
  ChannelEntry,
  Interim,
  ProgressEvent,
  Question,
  Reply,
  ReplyBody,
  ReplyStatus,
  StopReason,
} from "./shared/protocol/reply.ts";
export type { TranscriptEntry } from "./shared/protocol/transcript.ts";
export type { UsageTotals } from "./shared/protocol/usage.ts";
export { type Price, type PriceOverrides, priceOf } from "./shared/protocol/usage.ts";
export type { PauseState } from "./shared/redis/pause.ts";
export type { WebhookReceipt, WebhookView } from "./shared/redis/webhooks.ts";
export type { WorkspaceFile } from "./shared/workspace-files.ts";
