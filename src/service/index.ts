/** The network interfaces for the caller's own process: HTTP API, MCP, intake. Published as `subagent-queue/api`. */
export type { Clock } from "../shared/clock.ts";
export type { Logger } from "../shared/logger.ts";
export type { Scope } from "../shared/redis/api-keys.ts";
export {
  type CallbackOptions,
  type CallbackSender,
  createCallbackSender,
} from "./agent-protocol/callback.ts";
export { agentProtocol } from "./agent-protocol/router.ts";
export { type Api, type ApiOptions, createApi } from "./api/api.ts";
export type { Auth, Handler, Mount, MountParts, Principal, RouteParts } from "./api/mount.ts";
export { createIntake, type Intake, type IntakeOptions } from "./intake/intake.ts";
export { mcpMount } from "./mcp/mount.ts";
export { createMcpServer, type McpServerOptions } from "./mcp/server.ts";
export { type McpStdio, type McpStdioOptions, serveMcpStdio } from "./mcp/stdio.ts";
export type { Reach } from "./webhooks/address.ts";
