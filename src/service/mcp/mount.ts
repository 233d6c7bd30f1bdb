/** The MCP server over streamable HTTP, as a mount on the API's port: `/mcp?parent=<id>`, of the key's tenant. */
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { type NextFunction, type Request, type RequestHandler, type Response, Router } from "express";
import { createParent } from "../../producer/parent.ts";
import { SubagentError } from "../../shared/errors.ts";
import { stopOf, whenSent } from "../../shared/http-server.ts";
import type { Logger } from "../../shared/logger.ts";
import { ParentName } from "../../shared/protocol/ids.ts";
import { principalOf } from "../api/auth.ts";
import { readBody } from "../api/body.ts";
import { holdUnread } from "../api/json-answer.ts";
import type { Mount, MountParts } from "../api/mount.ts";
import { problemDocument, sendProblem } from "../api/problem.ts";
import { RPC, readMessage, refusalOfCall } from "./message.ts";
import { withCodeOf } from "./problem.ts";
import { createMcpServer, type McpServerOptions } from "./server.ts";

const DEFAULT_PARENT = "mcp";
const MOST_METHOD_CHARS = 20;

/** Creates the mount of the MCP server at `/mcp`. A request needs a key with the scope `spawn`. `answerWithinMs`: for tests. */
export function mcpMount({ answerWithinMs }: { answerWithinMs?: number } = {}): Mount {
  return {
    path: "/mcp",
    scope: "spawn",
    handler(parts) {
      const router = Router();
      router.use(requirePost, readBody("large"), requireReadable);
      router.use((request, response, next) => {
        serve(parts, answerWithinMs, request, response).catch(next);
      });
      router.use((error: unknown, _request: Request, response: Response, _next: NextFunction) =>
        sendRpcError(response, error, parts.logger),
      );
      return router;
    },
  };
}

/** Refuses other methods than POST: neither revision of the protocol needs them without sessions. */
const requirePost: RequestHandler = ({ method }, response, next) => {
  if (method === "POST") return next();
  response.set("Allow", "POST");
  const shown = method.slice(0, MOST_METHOD_CHARS);
  next(new SubagentError("method_not_allowed", `${shown} is not answered here: use POST.`));
};

/** Refuses what is no message, and answers a call of a wrong form. */
const requireReadable: RequestHandler = ({ body }, response, next) => {
  readMessage(body, "request");
  const refusal = refusalOfCall(body);
  if (refusal) response.json(refusal);
  else next();
};

/** Answers an unreadable request with a JSON-RPC error, without an id. */
function sendRpcError(response: Response, error: unknown, logger: Logger | undefined): void {
  if (response.headersSent) return void response.destroy();
  const { status, ...problem } = problemDocument(error, logger);
  const code = error instanceof SyntaxError ? RPC.parseError : RPC.invalidRequest;
  const data = { code: problem.code, retryable: problem.retryable };
  response.status(status).json({ jsonrpc: "2.0", id: null, error: { code, message: problem.detail, data } });
}

async function serve(
  { client, clock, logger, auth }: MountParts,
  answerWithinMs: number | undefined,
  request: Request,
  response: Response,
): Promise<void> {
  const parentId = ParentName.safeParse(request.query.parent ?? DEFAULT_PARENT);
  if (!parentId.success) {
    const sentence = "The parent in the address cannot be used: write /mcp?parent=planner-7.";
    return sendProblem(response, new SubagentError("invalid_input", sentence));
  }
  const parent = createParent({ client, parentId: parentId.data, tenant: principalOf(request).tenant });
  const onceAnswered: McpServerOptions["onceAnswered"] = (_requestId, ack) =>
    whenSent(response, (isWhole) => void (isWhole && ack()));
  const build = () =>
    createMcpServer({
      ...{ parent, clock, onceAnswered, requireStillValid: () => auth.requireStillValid(request) },
      onStop: (tell) => stopOf(request).onStop(tell),
      admit: (bytes) => holdUnread(request, response, bytes),
      ...(logger && { logger }),
      ...(answerWithinMs !== undefined && { answerWithinMs }),
    });
  const handler = createMcpHandler(build);
  const fetch: typeof handler.fetch = async (...asked) => withCodeOf(await handler.fetch(...asked));
  await toNodeHandler({ fetch })(request, response, request.body);
}
