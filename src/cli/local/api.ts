/** The HTTP API of a command, with MCP, the Agent Protocol, the board and the page on one port. */
import type { Client } from "../../producer/client.ts";
import { agentProtocol } from "../../service/agent-protocol/router.ts";
import { type ApiOptions, createApi } from "../../service/api/api.ts";
import { mcpMount } from "../../service/mcp/mount.ts";
import type { CommandContext } from "../command.ts";
import type { Disposables } from "./disposables.ts";

/** The default port. */
export const API_PORT = 8787;

/** A running API. */
export interface OpenedApi {
  /** `http://127.0.0.1:8787`. */
  readonly url: string;
  /** True if requests need a key. */
  readonly needsKey: boolean;
}

/** Options of an API; `callsBack`: the Agent Protocol notifies its callers when their runs end. */
interface OpenApiOptions extends Omit<ApiOptions, "client" | "mounts" | "tenant" | "clock" | "logger"> {
  callsBack?: boolean;
}

/** Starts an API over `client`; `disposables` stops it. Rejects as `start` of {@link createApi} does. */
export async function openApi(
  { config, clock, logger }: CommandContext,
  client: Client,
  { callsBack = false, ...options }: OpenApiOptions,
  disposables: Disposables,
): Promise<OpenedApi> {
  const mounts = [mcpMount(), agentProtocol({ callsBack })];
  const server = createApi({ ...options, mounts, client, tenant: config.tenant, clock, logger });
  disposables.add(() => server.stop());
  const { needsKey } = await server.start();
  return { url: server.url, needsKey };
}
