/** The MCP server over streamable HTTP, as another door on the API's port: `/mcp?parent=<id>`, of the key's tenant. */
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";
import type { Request, Response } from "express";
import { createParent } from "../../producer/parent.ts";
import { SubagentError } from "../../shared/errors.ts";
import { ParentId } from "../../shared/protocol/ids.ts";
import type { Mount, MountParts } from "../api/app.ts";
import { principalOf } from "../api/auth.ts";
import { sendProblem } from "../api/problem.ts";
import { createMcpServer, type McpServerOptions } from "./server.ts";

const DEFAULT_PARENT = "mcp";
/** Files of a call at their greatest, as JSON spells text, and the rest of it. */
const MAX_BODY_BYTES = 8 * 1_024 * 1_024;

/** Mounts the MCP server at `/mcp`. A request needs a key with the scope `spawn`. `answerWithinMs`: for tests. */
export function mcpMount({ answerWithinMs }: { answerWithinMs?: number } = {}): Mount {
  return {
    path: "/mcp",
    scope: "spawn",
    handler: (parts) => (request, response) => void serve(parts, answerWithinMs, request, response),
  };
}

async function serve(
  { client, clock }: MountParts,
  answerWithinMs: number | undefined,
  request: Request,
  response: Response,
): Promise<void> {
  const parentId = ParentId.safeParse(request.query.parent ?? DEFAULT_PARENT);
  if (!parentId.success) {
    const sentence = "The parent in the address cannot be used: write /mcp?parent=planner-7.";
    return sendProblem(response, new SubagentError("invalid_input", sentence));
  }
  const parent = createParent({ client, parentId: parentId.data, tenant: principalOf(request).tenant });
  const onceAnswered: McpServerOptions["onceAnswered"] = (_requestId, ack) =>
    void response.once("close", () => {
      if (response.writableFinished) void ack();
    });
  const build = () =>
    createMcpServer({ parent, clock, onceAnswered, ...(answerWithinMs !== undefined && { answerWithinMs }) });
  const node = toNodeHandler(createMcpHandler(build, { maxRequestBodySize: MAX_BODY_BYTES }), {
    maxRequestBodySize: MAX_BODY_BYTES,
  });
  await node(request, response);
}
