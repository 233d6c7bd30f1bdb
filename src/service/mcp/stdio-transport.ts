/**
 * The transport of the MCP server over standard input and output: one message a line. Owns no stream; it reads until `close`.
 *
 * 1. A line that cannot be used is answered, and the next one is read. None beyond {@link MOST_LINE_BYTES} is kept.
 * 2. While {@link MOST_UNREAD_BYTES} of answers wait for a client that does not read them, nothing more is read of it.
 * 3. The end of the input, and a client that takes no more answers, end the connection.
 */
import { isUtf8 } from "node:buffer";
import type { Readable, Writable } from "node:stream";
import {
  type JSONRPCMessage,
  type RequestId,
  serializeMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { SubagentError } from "../../shared/errors.ts";
import { requireSmall } from "../api/body.ts";
import { problemDocument } from "../api/problem.ts";
import { RPC, readMessage, refusalOfCall } from "./message.ts";
import { idIn, type MessageLine, MessageLines } from "./message-lines.ts";
import { withErrorCode } from "./problem.ts";

const MIB = 1_024 * 1_024;
/** The same as of a request over HTTP. */
const MOST_LINE_BYTES = 8 * MIB;
const MOST_UNREAD_BYTES = 8 * MIB;
const NO_JSON = "Send one JSON-RPC message a line, as an object.";

/** Streams and callbacks of a connection. */
export interface StdioTransportOptions {
  readonly input: Readable;
  readonly output: Writable;
  /** Called after the answer to request `id` was written. */
  readonly answered: (id: RequestId) => void;
  /** Called with the reason for an end that the client did not ask for. */
  readonly failed: (error: Error) => void;
  readonly closed: () => void;
}

/** See the module's header. */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: <T extends JSONRPCMessage>(message: T) => void;
  readonly #options: StdioTransportOptions;
  readonly #lines = new MessageLines(MOST_LINE_BYTES);
  #isClosed = false;

  constructor(options: StdioTransportOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { input, output } = this.#options;
    input.on("data", this.#read);
    for (const event of ["end", "close"]) input.on(event, this.#end);
    input.on("error", this.#fail);
    // It stays after the end: an answer that was accepted before may fail later, and without a listener end the process.
    output.on("error", this.#fail);
    if (input.readableEnded || input.destroyed) setImmediate(this.#end);
  }

  /** Resolves when the system has taken the message; does nothing after the end. */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#isClosed) return;
    const { output, answered } = this.#options;
    await new Promise<void>((resolve, reject) => {
      output.write(serializeMessage(withErrorCode(message)), (error) => (error ? reject(error) : resolve()));
    });
    if (!("method" in message) && message.id !== undefined) answered(message.id);
  }

  /** Idempotent. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { input, closed } = this.#options;
    input.off("data", this.#read);
    input.pause();
    this.onclose?.();
    closed();
  }

  readonly #end = () => void this.close();

  readonly #fail = (error: Error) => {
    if (this.#isClosed) return;
    this.#options.failed(error);
    this.onerror?.(error);
    void this.close();
  };

  readonly #read = (bytes: Buffer) => {
    for (const line of this.#lines.push(bytes)) {
      if (this.#isClosed) return;
      this.#take(line);
    }
    const { input, output } = this.#options;
    if (output.writableLength < MOST_UNREAD_BYTES) return;
    input.pause();
    output.once("drain", () => {
      if (!this.#isClosed) input.resume();
    });
  };

  #take(line: MessageLine): void {
    let id: RequestId | null = null;
    try {
      if ("lostId" in line) {
        id = line.lostId;
        const sentence = `The message has more than ${MOST_LINE_BYTES / MIB} MB, nothing was done: put long material into a file and name it.`;
        throw new SubagentError("too_large", sentence);
      }
      if (isBlank(line.bytes)) return;
      id = idIn(line.bytes);
      const value = parse(line.bytes);
      id = idOf(value);
      const message = readMessage(value, "line");
      const refusal = refusalOfCall(message);
      if (refusal) this.#answer(refusal);
      else this.onmessage?.(message);
    } catch (error) {
      this.#refuse(id, error);
    }
  }

  #refuse(id: RequestId | null, error: unknown): void {
    if (error instanceof Error) this.onerror?.(error);
    const { detail, code, retryable } = problemDocument(error, undefined);
    const isJson = !(error instanceof SyntaxError);
    this.#answer({
      jsonrpc: "2.0",
      // The SDK's type of an answer knows no null.
      id: id as never,
      error: {
        code: isJson ? RPC.invalidRequest : RPC.parseError,
        message: isJson ? detail : NO_JSON,
        data: { code: isJson ? code : "invalid_input", retryable },
      },
    });
  }

  #answer(message: JSONRPCMessage): void {
    this.send(message).catch(() => {});
  }
}

function isBlank(bytes: Buffer): boolean {
  return bytes.length < 3 && bytes.toString().trim() === "";
}

function parse(bytes: Buffer): unknown {
  if (!isUtf8(bytes))
    throw new SubagentError("invalid_input", "The message is not UTF-8: encode its text so.");
  requireSmall(bytes, "message");
  return JSON.parse(bytes.toString());
}

function idOf(value: unknown): RequestId | null {
  const id: unknown = typeof value === "object" && value !== null && "id" in value ? value.id : null;
  return typeof id === "string" || typeof id === "number" ? id : null;
}
