/**
 * Ends the requests to an MCP server over HTTP. Each has a connection of its own until the server ends its answer. The SDK
 * waits for that without a limit, also after a call was cancelled or its result has come in a stream: a server that keeps
 * its streams open would take one socket of the worker for each call.
 *
 * 1. A request that is given up ends at once. One whose answer has come ends {@link LINGER_MS} later, unless the server ends
 *    it before: then its connection can be used again.
 * 2. A message that asks for nothing, such as a cancellation, has {@link DELIVERY_MS} to be taken.
 */
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { Clock } from "../../../shared/clock.ts";

const LINGER_MS = 1_000;
const DELIVERY_MS = 10_000;

/** A request that the server has not ended. */
interface OpenRequest {
  readonly end: AbortController;
  /** The time that is left to it after its answer. */
  limit?: { cancel(): void };
}

/** Listener of a transport that ends its requests. */
export interface RequestEnds {
  /** Takes a message of the server. */
  heard(message: JSONRPCMessage): void;
  /** Forgets all requests, because their transport has ended them. */
  forget(): void;
}

/** Makes `transport` end the requests that it sends from now on. */
export function endRequests(transport: Transport, clock: Clock): RequestEnds {
  const open = new Map<unknown, OpenRequest>();
  const send = transport.send.bind(transport);
  const close = (id: unknown): OpenRequest | undefined => {
    const request = open.get(id);
    request?.limit?.cancel();
    open.delete(id);
    return request;
  };
  const end = (id: unknown): void => close(id)?.end.abort();
  const ask = async (id: unknown, message: JSONRPCMessage, options: Parameters<Transport["send"]>[1]) => {
    const request: OpenRequest = { end: new AbortController() };
    open.set(id, request);
    const onRequestStreamEnd = () => void close(id);
    try {
      await send(message, { ...options, requestSignal: request.end.signal, onRequestStreamEnd });
      // An answer that is no stream has been read to its end.
      if (request.limit) end(id);
    } catch (error) {
      close(id);
      throw error;
    }
  };
  transport.send = async (message, options) => {
    if ("method" in message && "id" in message) return ask(message.id, message, options);
    if ("method" in message && message.method === "notifications/cancelled") end(message.params?.requestId);
    const late = new AbortController();
    const limit = clock.timeout(DELIVERY_MS, () => late.abort());
    try {
      await send(message, { ...options, requestSignal: late.signal });
    } finally {
      limit.cancel();
    }
  };
  return {
    heard(message) {
      if ("method" in message || !("id" in message)) return;
      const { id } = message;
      const request = open.get(id);
      if (request) request.limit ??= clock.timeout(LINGER_MS, () => end(id));
    },
    forget() {
      for (const id of [...open.keys()]) close(id);
    },
  };
}
