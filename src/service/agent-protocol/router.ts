/**
 * The parts of the Agent Protocol that deepagents' asynchronous sub-agents and the LangGraph SDK use, as a mount of the API.
 * A thread is made of sub-agents of the parent in the header `X-Parent-Id` (default `agent-protocol`), of the key's tenant.
 */
import { type Request, type RequestHandler, type Response, Router } from "express";
import { z } from "zod";
import { nullsLeftOut, readInput } from "../../producer/input.ts";
import { SubagentError } from "../../shared/errors.ts";
import { type AnswerSignals, answerSignals, leftClientsKnown, whenSent } from "../../shared/http-server.ts";
import { AgentName, ParentName } from "../../shared/protocol/ids.ts";
import { MessageText } from "../../shared/protocol/message.ts";
import { requestTraceparent } from "../../shared/telemetry.ts";
import { principalOf } from "../api/auth.ts";
import { readBody } from "../api/body.ts";
import { type ServerSentEvent, streamEvents } from "../api/event-stream.ts";
import { sendJson } from "../api/json-answer.ts";
import type { Mount, MountParts } from "../api/mount.ts";
import { problemDocument, sendProblem } from "../api/problem.ts";
import { newThreadId, openThread, type ProtocolRun, type Thread, type ThreadState } from "./thread.ts";

/** Path of the mount. */
export const AGENT_PROTOCOL_PATH = "/agent-protocol";
const DEFAULT_PARENT = "agent-protocol";
const Headers = z.strictObject({ "X-Parent-Id": ParentName.default(DEFAULT_PARENT) });

const Text = z.union([
  z.string(),
  z.array(z.looseObject({ type: z.string(), text: z.string().optional() })).max(64),
]);
const RunInput = z.looseObject({
  assistant_id: AgentName,
  input: nullsLeftOut(
    z.looseObject({
      messages: z
        .array(z.looseObject({ content: Text }))
        .min(1, "give a message")
        .max(64),
      callbackThreadId: z
        .string()
        .regex(/^(?!\.\.?$)[\w.-]{1,128}$/, "1 to 128 characters of A-Za-z0-9._-, and neither . nor ..")
        .optional(),
    }),
  ),
});
const ThreadInput = nullsLeftOut(
  z.looseObject({ thread_id: z.undefined("ids of threads are made here").optional() }),
);

/** One request on its route. */
interface Call extends AnswerSignals {
  parts: MountParts;
  request: Request;
  response: Response;
  callsBack: boolean;
}

type Handler = (call: Call) => Promise<unknown>;

/**
 * Creates the mount for an API. `callsBack`: whether the `callbackThreadId` of a run is stored for a `CallbackSender`
 * (default false: it is ignored).
 */
export function agentProtocol({ callsBack = false }: { callsBack?: boolean } = {}): Mount {
  return {
    path: AGENT_PROTOCOL_PATH,
    scope: "spawn",
    handler(parts) {
      const router = Router();
      router.use(readBody("small"));
      for (const [method, path, handle] of ROWS) router[method](path, answering(parts, callsBack, handle));
      router.use((_request, response) =>
        sendProblem(
          response,
          new SubagentError(
            "not_found",
            "This part of the Agent Protocol is not served here: use threads and runs, as docs/api.md lists them.",
          ),
        ),
      );
      return router;
    },
  };
}

const ROWS: readonly (readonly ["get" | "post" | "delete", string, Handler])[] = [
  ["get", "/ok", async () => ({ ok: true })],
  ["get", "/info", async () => ({ version: "1", flags: { assistants: false, crons: false } })],
  ["post", "/assistants/search", async () => []],
  ["post", "/threads", createThread],
  ["post", "/threads/search", async () => []],
  ["get", "/threads/:thread", (call) => showThread(call.request, threadOf(call))],
  ["delete", "/threads/:thread", (call) => threadOf(call).remove()],
  ["get", "/threads/:thread/state", showState],
  ["get", "/threads/:thread/history", async (call) => [await showState(call)]],
  ["post", "/threads/:thread/history", async (call) => [await showState(call)]],
  ["get", "/threads/:thread/runs", (call) => threadOf(call).runs()],
  ["post", "/threads/:thread/runs", (call) => begin(call, threadOf(call))],
  ["post", "/threads/:thread/runs/wait", (call) => beginAndWait(call, threadOf(call))],
  ["post", "/threads/:thread/runs/stream", (call) => stream(call, threadOf(call))],
  ["get", "/threads/:thread/runs/:run", (call) => threadOf(call).run(param(call.request, "run"))],
  ["post", "/threads/:thread/runs/:run/cancel", cancel],
  ["get", "/threads/:thread/runs/:run/join", join],
  ["get", "/threads/:thread/runs/:run/stream", joinStream],
  ["post", "/runs/wait", (call) => beginAndWait(call, threadOf(call, newThreadId()))],
  ["post", "/runs/stream", (call) => stream(call, threadOf(call, newThreadId()))],
];

function answering(parts: MountParts, callsBack: boolean, handle: Handler): RequestHandler {
  return (request, response) => {
    void answer({ parts, request, response, ...answerSignals(request, response), callsBack }, handle);
  };
}

/** Answers one request. Never rejects. */
async function answer(call: Call, handle: Handler): Promise<void> {
  const { parts, request, response } = call;
  try {
    const body = await handle(call);
    if (response.headersSent) return;
    await parts.auth.requireStillValid(request);
    await leftClientsKnown();
    if (response.closed) return;
    if (body === undefined) response.status(response.statusCode === 202 ? 202 : 204).end();
    else sendJson(request, response, body);
  } catch (error) {
    if (!response.closed) sendProblem(response, error);
  }
}

function threadOf({ parts, request }: Call, threadId: string = param(request, "thread")): Thread {
  const { "X-Parent-Id": parentId } = readInput(
    Headers,
    { "X-Parent-Id": request.get("X-Parent-Id") },
    "header",
  );
  return openThread(parts.client, principalOf(request).tenant, parentId, threadId);
}

function param(request: Request, name: string): string {
  const value: string | string[] | undefined = request.params[name];
  return typeof value === "string" ? value : "";
}

async function createThread(call: Call): Promise<unknown> {
  const { request, parts } = call;
  readInput(ThreadInput, request.body ?? {}, "thread");
  const thread_id = newThreadId();
  // Nothing is written for a thread without runs; a parent that cannot have any is refused now.
  threadOf(call, thread_id);
  const now = new Date(parts.clock.now()).toISOString();
  return {
    thread_id,
    created_at: now,
    updated_at: now,
    metadata: {},
    status: "idle",
    values: null,
  };
}

async function showThread(request: Request, thread: Thread): Promise<unknown> {
  const run = (await thread.runs()).at(-1);
  const isBusy = run?.status === "pending" || run?.status === "running";
  const { created_at = null, updated_at = null } = run ?? {};
  const status = isBusy ? "busy" : run?.status === "error" ? "error" : "idle";
  return {
    thread_id: param(request, "thread"),
    created_at,
    updated_at,
    metadata: {},
    status,
    values: (await thread.state()).values,
  };
}

/** Returns the replies of the thread. Acks them after the whole answer was passed to the network. */
async function showState(call: Call): Promise<unknown> {
  const { values, ack } = await threadOf(call).state();
  ackWhenSent(call, ack);
  const thread_id = param(call.request, "thread");
  return {
    values,
    next: [],
    tasks: [],
    metadata: {},
    created_at: null,
    checkpoint: { thread_id },
    parent_checkpoint: null,
  };
}

function ackWhenSent({ response }: Call, ack: ThreadState["ack"]): void {
  whenSent(response, (isWhole) => void (isWhole && ack()));
}

async function begin({ request, callsBack }: Call, thread: Thread): Promise<ProtocolRun> {
  const { assistant_id, input } = readInput(RunInput, request.body ?? {}, "run");
  const texts = input.messages.map(({ content }) =>
    typeof content === "string" ? content : content.map(({ text = "" }) => text).join(""),
  );
  const text = readInput(MessageText, texts.join("\n\n"), "run");
  const { callbackThreadId } = input;
  const traced = await requestTraceparent(request.get("traceparent"));
  return thread.begin({ assistantId: assistant_id, text, ...traced, ...(callsBack && { callbackThreadId }) });
}

async function beginAndWait(call: Call, thread: Thread): Promise<unknown> {
  const run = await begin(call, thread);
  return valuesAfter(call, thread, run.run_id).catch((error: unknown) => {
    throw afterBegin(error, run);
  });
}

/** Returns the error of a call that has begun `run`: "nothing was done" of a later read would have the message sent again. */
function afterBegin(error: unknown, { thread_id, run_id }: ProtocolRun): unknown {
  if (!(error instanceof SubagentError) || error.code !== "redis_unavailable") return error;
  return new SubagentError(
    "timed_out",
    "The message has arrived, but the end of its run could not be read from Redis; the run goes on: join it, and do not send the message again.",
    { thread_id, run_id },
    error,
  );
}

async function join(call: Call): Promise<unknown> {
  return valuesAfter(call, threadOf(call), param(call.request, "run"));
}

async function valuesAfter(call: Call, thread: Thread, runId: string): Promise<unknown> {
  const { status, problem } = await thread.wait(runId, call.waiting);
  const { values, ack } = await thread.state();
  ackWhenSent(call, ack);
  return problem === undefined ? values : { ...values, __error__: { error: status, message: problem } };
}

async function cancel(call: Call): Promise<void> {
  const thread = threadOf(call);
  const { run_id } = await thread.run(param(call.request, "run"));
  await thread.cancel(run_id);
  call.response.status(202);
}

async function stream(call: Call, thread: Thread): Promise<void> {
  await streamRun(call, thread, await begin(call, thread), afterBegin);
}

async function joinStream(call: Call): Promise<void> {
  const thread = threadOf(call);
  await streamRun(call, thread, await thread.run(param(call.request, "run")));
}

/** Sends the beginning and the end of the run as server-sent events; clients read its progress from the parent's events. */
async function streamRun(
  call: Call,
  thread: Thread,
  run: ProtocolRun,
  errorOf: typeof afterBegin = (error) => error,
): Promise<void> {
  const { parts, request, response, signal } = call;
  const { auth, clock } = parts;
  await streamEvents({ request, response, auth, clock, signal }, eventsOf(call, thread, run, errorOf));
}

async function* eventsOf(
  call: Call,
  thread: Thread,
  run: ProtocolRun,
  errorOf: typeof afterBegin,
): AsyncGenerator<ServerSentEvent> {
  const { run_id, thread_id } = run;
  yield { event: "metadata", data: { run_id, thread_id } };
  try {
    const { status, problem } = await thread.wait(run_id, call.waiting);
    if (problem === undefined) {
      const { values, ack } = await thread.state();
      await leftClientsKnown();
      yield { event: "values", data: values };
      // The loop asks for the next event only after the values are written, so the end of the stream includes them.
      ackWhenSent(call, ack);
    } else yield { event: "error", data: { error: status, message: problem } };
  } catch (error) {
    if (call.signal.aborted) return;
    const { code, detail } = problemDocument(errorOf(error, run), call.parts.logger);
    yield { event: "error", data: { error: code, message: detail } };
  }
}
