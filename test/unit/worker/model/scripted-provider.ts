/** A Messages API server whose every byte the test writes itself, plus the events a provider's stream is made of. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { systemClock } from "../../../../src/shared/clock.ts";
import {
  type AnthropicModelOptions,
  createAnthropicModel,
} from "../../../../src/worker/model/anthropic/model.ts";
import type {
  CallControl,
  Model,
  ModelMessage,
  ModelRequest,
  ToolSchema,
} from "../../../../src/worker/model/model.ts";
import { messageJson, requestHead } from "../../../../src/worker/model/request.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

/** A request as it arrived. */
export interface Received {
  url: string;
  headers: IncomingHttpHeaders;
  text: string;
  /** The body, parsed; undefined when it is not JSON. */
  json: Record<string, unknown> | undefined;
  socket: Socket;
}

/** Answers one request. */
export type Script = (response: ServerResponse, request: Received) => void;

/** A running server: its address, what it received, and the sockets that are open to it. */
export interface Provider {
  baseUrl: string;
  received: Received[];
  sockets: Set<Socket>;
  /** Sockets ever opened. */
  connections: number;
}

/** Starts a server that answers every request by `script`; it closes with the test. */
export async function startProvider(script: Script): Promise<Provider> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      const { url = "", headers, socket } = request;
      const received = { url, headers, text, json: parse(text), socket };
      provider.received.push(received);
      script(response, received);
    });
  });
  const provider: Provider = { baseUrl: "", received: [], sockets: new Set(), connections: 0 };
  server.on("connection", (socket) => {
    provider.connections += 1;
    provider.sockets.add(socket);
    socket.on("close", () => provider.sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closeAtEnd(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  provider.baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return provider;
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

/** A model on `provider` that stops with the test. */
export function connect(provider: { baseUrl: string }, options: Partial<AnthropicModelOptions> = {}): Model {
  const model = createAnthropicModel({
    apiKey: "sk-ant-test-0123456789",
    baseUrl: provider.baseUrl,
    clock: systemClock,
    ...options,
  });
  closeAtEnd(() => model.stop());
  return model;
}

/** What {@link ask} asks, before it becomes text. */
export interface Asked {
  model: string;
  system: string;
  tools: ToolSchema[];
  messages: ModelMessage[];
  maxTokens: number;
  cachedLength: number;
  extra: string;
  purchaseId: string;
  stream: boolean;
}

/** One question of the user. */
export const QUESTION: ModelMessage = { role: "user", content: [{ type: "text", text: "Say something." }] };

/** A streamed request with one question; `over` replaces parts of it. */
export function ask(over: Partial<Asked> = {}): ModelRequest {
  const { model = "claude-test", system = "You are a test.", tools = [], maxTokens = 100 } = over;
  return {
    model,
    head: requestHead({ maxTokens, system, tools }),
    messages: (over.messages ?? [QUESTION]).map(messageJson).join(),
    cachedLength: over.cachedLength ?? 0,
    extra: over.extra ?? "",
    purchaseId: over.purchaseId ?? "run-1.1.1",
    maxTokens,
    stream: over.stream ?? true,
  };
}

/** The hold of a caller that lets its call go on. */
export function hold(over: Partial<CallControl> = {}): CallControl {
  return { mayBegin: () => true, abortCall: null, deadlineMs: Number.POSITIVE_INFINITY, ...over };
}

/** One server-sent event of the Messages API. */
export function event(type: string, data: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}

/** The event that opens a message. */
export function messageStart(message: object = {}): string {
  return event("message_start", {
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "claude-test-20260101",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: {
        input_tokens: 10,
        output_tokens: 1,
        cache_read_input_tokens: null,
        cache_creation_input_tokens: 4,
      },
      ...message,
    },
  });
}

/** A whole block: its start, its deltas and its stop. */
export function block(index: number, start: object, ...deltas: object[]): string {
  return [
    event("content_block_start", { index, content_block: start }),
    ...deltas.map((delta) => event("content_block_delta", { index, delta })),
    event("content_block_stop", { index }),
  ].join("");
}

/** A text block, streamed in the given pieces. */
export function textBlock(index: number, ...pieces: string[]): string {
  return block(index, { type: "text", text: "" }, ...pieces.map((text) => ({ type: "text_delta", text })));
}

/** A tool call whose input streams in the given pieces of JSON. */
export function toolBlock(index: number, ...pieces: string[]): string {
  return block(
    index,
    { type: "tool_use", id: `toolu_${index}`, name: "grep", input: {} },
    ...pieces.map((partial_json) => ({ type: "input_json_delta", partial_json })),
  );
}

/** The two events that close a message. */
export function messageEnd(
  stopReason: string | null = "end_turn",
  usage: object = { output_tokens: 7 },
): string {
  return (
    event("message_delta", { delta: { stop_reason: stopReason, stop_sequence: null }, usage }) +
    event("message_stop")
  );
}

/** A complete answer of one text block. */
export function answer(text = "hello"): string {
  return messageStart() + textBlock(0, text) + messageEnd();
}

/** Sends `body` as an event stream and ends the response. */
export function stream(response: ServerResponse, body: string): void {
  response.writeHead(200, { "content-type": "text/event-stream" }).end(body);
}

/** Sends an error response in the provider's form. */
export function refuse(
  response: ServerResponse,
  status: number,
  type: string,
  message: string,
  headers: Record<string, string> = {},
): void {
  response
    .writeHead(status, { "content-type": "application/json", "request-id": "req_42", ...headers })
    .end(JSON.stringify({ type: "error", error: { type, message } }));
}

/** Sends a whole message as JSON; `over` replaces members of it. */
export function send(response: ServerResponse, content: unknown, over: object = {}): void {
  response.writeHead(200, { "content-type": "application/json" }).end(messageBody(content, over));
}

/** A whole message as JSON. */
export function messageBody(content: unknown, over: object = {}): string {
  return JSON.stringify({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-test-20260101",
    content,
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: {
      input_tokens: 10,
      output_tokens: 7,
      cache_read_input_tokens: null,
      cache_creation_input_tokens: 4,
    },
    ...over,
  });
}
