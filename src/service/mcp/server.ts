/**
 * The MCP server of one parent: its tools, and each `task` and `agent` call as an MCP task if the client supports tasks.
 * One object serves one request over HTTP, or one connection over stdio; it owns no lasting state.
 *
 * 1. A task is durable before it is answered: from then on every process can find it.
 * 2. Only `tasks/cancel` and the destroy tool destroy an agent. A closed, aborted or timed-out request does not affect it.
 * 3. A plain call is answered within {@link ANSWER_WITHIN_MS}: with the reply, or with the `agent_id` that finds it later.
 * 4. A reply stays in its parent's channel until the answer with it was sent: a process that dies before loses no reply.
 */

import {
  ProtocolError,
  type RequestId,
  Server,
  type ServerContext,
  type Transport,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { beginTask, waitForTask } from "../../producer/detached-task.ts";
import { nullsLeftOut, readInput } from "../../producer/input.ts";
import { asQuestion } from "../../producer/model-text.ts";
import { TOOL_INPUTS, toldToModel } from "../../producer/model-tools.ts";
import { contextOf, type Parent } from "../../producer/parent.ts";
import { type Clock, systemClock } from "../../shared/clock.ts";
import { ERRORS, type ErrorCode, SubagentError } from "../../shared/errors.ts";
import { leftClientsKnown } from "../../shared/http-server.ts";
import { guardedLogger, type Logger } from "../../shared/logger.ts";
import { packageVersion } from "../../shared/package.ts";
import { quoted } from "../../shared/protocol/text.ts";
import { withoutSecrets } from "../../shared/secrets.ts";
import { onAbort } from "../../shared/stop-signal.ts";
import { problemDocument } from "../api/problem.ts";
import { CallParams, RPC } from "./message.ts";
import { withErrorCode } from "./problem.ts";
import { cancelTask, createdTask, InputResponses, readTask, resultOf, updateTask } from "./task.ts";

/** Clients time out after 60 s. */
const ANSWER_WITHIN_MS = 45_000;
/** The protocol extension that turns a call into a task. */
const TASKS = "io.modelcontextprotocol/tasks";
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const INSTRUCTIONS =
  "Sub-agents with a conversation of their own. task and agent give one piece of work and return its summary; the others manage sub-agents that stay.";
const MISSING_CAPABILITY = -32_021;

const Params = z.looseObject({});
const ListParams = z.looseObject({ cursor: z.string().optional() });
const TaskParams = z.looseObject({ taskId: z.string().max(128) });
const DeclaresTasks = z.looseObject({ extensions: z.looseObject({ [TASKS]: z.unknown().refine(Boolean) }) });

/** Options of a server. */
export interface McpServerOptions {
  parent: Parent;
  /** Default: the system clock. */
  clock?: Clock;
  /** Default 45,000; for tests. */
  answerWithinMs?: number;
  /** Calls `ack` after the whole answer to a request was sent, and only then. Default: at once. */
  onceAnswered?: (requestId: RequestId, ack: () => Promise<unknown>) => void;
  /**
   * Called with the size of an answer, bytes, that a client can ask for again, because its reply or task stays. What it throws is
   * answered instead, and nothing is acked. Default: any size is answered.
   */
  admit?: (bytes: number) => void;
  /** Rejects with `unauthorized` if the client may no longer get the answer that it waited for. Default: it may. */
  requireStillValid?: () => Promise<void>;
  /**
   * Calls `tell` when what serves it stops, and returns a function that forgets `tell`. A plain call that waits for its reply is
   * then answered without it. Default: never.
   */
  onStop?: (tell: () => void) => () => void;
  /** Gets internal errors; the client learns only that there was one. */
  logger?: Logger;
}

type Ack = () => Promise<unknown>;

/** A server whose errors have a code of this API, also those of the SDK. */
class CodedServer extends Server {
  override connect(transport: Transport): Promise<void> {
    const send = transport.send.bind(transport);
    transport.send = (message, options) => send(withErrorCode(message), options);
    return super.connect(transport);
  }
}

/** Creates a server for `parent`, not connected. */
export function createMcpServer({
  parent,
  clock = systemClock,
  answerWithinMs = ANSWER_WITHIN_MS,
  onceAnswered = (_requestId, ack) => void ack(),
  admit = () => {},
  requireStillValid = async () => {},
  onStop = () => () => {},
  ...more
}: McpServerOptions): Server {
  const logger = more.logger && guardedLogger(more.logger);
  const server = new CodedServer(
    { name: "subagent-queue", version: packageVersion() },
    { capabilities: { tools: {}, extensions: { [TASKS]: {} } }, instructions: INSTRUCTIONS },
  );
  const handOver: HandOver = async ({ mcpReq }, answer, ack) => {
    await leftClientsKnown();
    admit(Buffer.byteLength(JSON.stringify(answer)));
    // An aborted request gets no answer, and a later request may reuse its id.
    if (ack && !mcpReq.signal.aborted) onceAnswered(mcpReq.id, ack);
    return { ...answer };
  };
  addToolMethods(server, { parent, clock, answerWithinMs, requireStillValid, onStop, handOver, logger });
  addTaskMethods(server, { parent, handOver, logger });
  return server;
}

/**
 * Returns an answer that its client can ask for again, when it is known whether the client has left; from then on `ack` waits for
 * its end. Throws what refuses an answer of its size.
 */
type HandOver = (context: ServerContext, answer: object, ack: Ack | undefined) => Promise<Answer>;
type Answer = Record<string, unknown>;

interface TaskMethods {
  parent: Parent;
  handOver: HandOver;
  logger: Logger | undefined;
}

type ToolMethods = TaskMethods & Omit<TaskCall, "name" | "input" | "signal" | "finish">;

function addToolMethods(server: Server, { handOver, logger, ...options }: ToolMethods): void {
  const tools = options.parent.tools();
  // With a schema of its own: the SDK calls a wrong cursor an error of the server.
  server.setRequestHandler("tools/list", { params: Params, result: Params }, async (params) => {
    readParams(ListParams, params, "tools/list");
    const shown = tools.map(({ name, description, input_schema: inputSchema }) => {
      return { name, description, inputSchema };
    });
    return { tools: shown };
  });
  // Registered with explicit schemas, because the SDK's result type of `tools/call` has no tasks.
  server.setRequestHandler(
    "tools/call",
    { params: CallParams, result: Params },
    async ({ name, arguments: input }, context) => {
      const { signal, id } = context.mcpReq;
      const finish = async (answer: object, ack?: Ack) =>
        ack ? handOver(context, answer, ack) : { ...answer };
      if (name === "task" || name === "agent") {
        const call = { name, input, signal, finish, ...options } as const;
        return asResult(logger, () => (followsTasks(context) ? startTask(call) : answerPlainly(call)));
      }
      const tool = tools.find((each) => each.name === name);
      if (!tool)
        throw refusal(RPC.invalidParams, "not_found", `There is no tool ${quoted(withoutSecrets(name))}.`);
      return asResult(logger, async () => {
        let ack: Ack | undefined;
        const ackLater = (later: Ack) => {
          ack = later;
        };
        const text = await tool.run(input, { toolUse: { id: String(id) }, ackLater });
        return finish(said(text), ack);
      });
    },
  );
}

function addTaskMethods(server: Server, { parent, handOver, logger }: TaskMethods): void {
  const context = contextOf(parent);
  const schemas = { params: Params, result: Params };
  server.setRequestHandler("tasks/get", schemas, async (params, request) => {
    const taskId = taskIdOf(params, request);
    const { task, ack } = known(await asProtocol(logger, () => readTask(context, taskId)));
    return asProtocol(logger, () => handOver(request, task, ack));
  });
  server.setRequestHandler("tasks/update", schemas, async (params, request) => {
    const taskId = taskIdOf(params, request);
    // The SDK moves the responses out of the parameters without checking them.
    const responses = InputResponses.safeParse(request.mcpReq.inputResponses ?? {});
    if (!responses.success) {
      const sentence = "inputResponses must be answers by the keys of inputRequests.";
      throw refusal(RPC.invalidParams, "invalid_input", sentence);
    }
    known(await asProtocol(logger, () => updateTask(context, taskId, responses.data)));
    return { resultType: "complete" };
  });
  server.setRequestHandler("tasks/cancel", schemas, async (params, request) => {
    const taskId = taskIdOf(params, request);
    known(await asProtocol(logger, () => cancelTask(context, taskId)));
    return { resultType: "complete" };
  });
}

interface TaskCall {
  parent: Parent;
  clock: Clock;
  name: "task" | "agent";
  input: unknown;
  signal: AbortSignal;
  answerWithinMs: number;
  /** Returns an answer; `ack` waits for its end. Rejects if an answer of its size is refused. */
  finish: (answer: object, ack?: Ack) => Promise<Answer>;
  requireStillValid: () => Promise<void>;
  onStop: NonNullable<McpServerOptions["onStop"]>;
}

async function begin({ parent, name, input }: TaskCall) {
  try {
    if (name === "task")
      return await beginTask(parent, readInput(nullsLeftOut(TOOL_INPUTS.task), input, "task"));
    const { tool_allowlist: tools, ...given } = readInput(nullsLeftOut(TOOL_INPUTS.agent), input, "agent");
    return await beginTask(parent, { name: "agent", ...given, ...(tools && { tools }) }, "agent");
  } catch (error) {
    throw toldToModel(error);
  }
}

async function startTask(call: TaskCall) {
  return createdTask(contextOf(call.parent), await begin(call));
}

/**
 * Waits for the reply up to `answerWithinMs`, or until the sub-agent asks, the client leaves or the server stops. Later
 * `check_sub_agent` returns the reply.
 */
async function answerPlainly(call: TaskCall) {
  const spawned = await begin(call);
  const { agent_id } = spawned.receipt;
  const enough = new AbortController();
  const end = () => enough.abort();
  const timer = call.clock.timeout(call.answerWithinMs, end);
  const forgets = [onAbort(call.signal, end), call.onStop(end)];
  try {
    const { reply, ack } = await waitForTask(call.parent, spawned, enough.signal, end);
    await call.requireStillValid();
    return await call.finish(resultOf(reply), ack).catch((error: unknown) => {
      throw replyStays(error, agent_id);
    });
  } catch (error) {
    if (!enough.signal.aborted) throw error;
    return unfinished(call.parent, agent_id);
  } finally {
    timer.cancel();
    for (const forget of forgets) forget();
  }
}

/** Returns the answer to a plain call whose sub-agent goes on, with the questions that it waits with. */
async function unfinished(parent: Parent, agentId: string): Promise<Answer> {
  // Without Redis nothing is known of it but that it has begun.
  const questions = (await parent.get(agentId).catch(() => undefined))?.questions ?? [];
  const isAsking = questions.length > 0;
  const doing = isAsking
    ? "waits for your answer: give it with send_agent_message, then"
    : "is still at work, and goes on:";
  const sentence = `Sub-agent ${agentId} ${doing} call check_sub_agent with this agent_id later for its reply.`;
  const asked = questions.map((question) => asQuestion({ agent_id: agentId, ...question }));
  const status = isAsking ? "input_required" : "working";
  return { ...said([sentence, ...asked].join("\n")), structuredContent: { agent_id: agentId, status } };
}

/** Returns the refusal of an answer with a reply, with the way to the reply. */
function replyStays(error: unknown, agentId: string): unknown {
  if (!(error instanceof SubagentError)) return error;
  const sentence = `${error.message} The reply of sub-agent ${agentId} stays: call check_sub_agent with this agent_id.`;
  return new SubagentError(error.code, sentence, error.details, error);
}

function said(text: string) {
  return { content: [{ type: "text" as const, text }] };
}

/** Returns a `SubagentError` as a result that the model reads; throws other errors as protocol errors without internals. */
async function asResult(logger: Logger | undefined, work: () => Promise<object>): Promise<Answer> {
  try {
    return { ...(await work()) };
  } catch (error) {
    const refusal = protocolError(error, logger);
    if (error instanceof SubagentError) return { ...said(error.message), isError: true };
    throw refusal;
  }
}

async function asProtocol<T>(logger: Logger | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw protocolError(error, logger);
  }
}

/** Returns the protocol error for `error`, without internals; `data` has the code by which a program can tell what to do. */
function protocolError(
  error: unknown,
  logger: Logger | undefined,
  rpcCode: number = RPC.internal,
): ProtocolError {
  const { detail, code, retryable, details } = problemDocument(error, logger);
  return new ProtocolError(rpcCode, detail, { code, retryable, ...(details && { details }) });
}

/** Returns the protocol error of a refusal; `data` has what `protocolError` gives it, and `facts`. */
function refusal(rpcCode: number, code: ErrorCode, sentence: string, facts: object = {}): ProtocolError {
  return new ProtocolError(rpcCode, sentence, { ...facts, code, retryable: ERRORS[code].retryable });
}

function known<T>(found: T | false | undefined): T {
  if (found) return found;
  throw refusal(RPC.invalidParams, "not_found", "There is no such task.");
}

function followsTasks({ mcpReq }: ServerContext): boolean {
  const envelope: Readonly<Record<string, unknown>> = { ...mcpReq.envelope };
  return DeclaresTasks.safeParse(envelope[CAPABILITIES]).success;
}

/** Returns the id of the task that a `tasks/…` call names. Throws for a client that cannot follow tasks, or without an id. */
function taskIdOf(params: unknown, context: ServerContext): string {
  if (!followsTasks(context)) {
    const requiredCapabilities = { extensions: { [TASKS]: {} } };
    const sentence = "Missing required client capability: only clients that declare tasks can follow them.";
    throw refusal(MISSING_CAPABILITY, "invalid_input", sentence, { requiredCapabilities });
  }
  return readParams(TaskParams, params, context.mcpReq.method).taskId;
}

function readParams<S extends z.ZodType>(schema: S, params: unknown, method: string): z.output<S> {
  try {
    return readInput(schema, params, method);
  } catch (error) {
    throw protocolError(error, undefined, RPC.invalidParams);
  }
}
