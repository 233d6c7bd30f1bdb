/** Starts an API on a stage, and sends it HTTP requests as any program does. */
import { type ApiOptions, createApi } from "../../src/service/api/api.ts";
import { closeAtEnd } from "./cleanup.ts";

/** A started API. `ask` sends a request to a path below its URL, and parses a JSON answer; `stop` is idempotent. */
export interface TestApi {
  readonly url: string;
  ask(method: string, path: string, options?: AskOptions): Promise<Answer>;
  stop(): Promise<void>;
}

export interface AskOptions {
  /** Sent as JSON; a string, and bytes, are sent unchanged. */
  body?: unknown;
  headers?: Record<string, string>;
  /** Sent as `Authorization: Bearer`. */
  token?: string;
  signal?: AbortSignal;
}

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects
  body: any;
}

/** Starts an API; the test's end stops it. */
export async function startApi(options: ApiOptions): Promise<TestApi> {
  const api = createApi(options);
  closeAtEnd(() => api.stop());
  await api.start();
  return { url: api.url, ask: (method, path, more) => ask(api.url + path, method, more), stop: api.stop };
}

/** Sends one request and returns its answer. */
export async function ask(
  url: string,
  method: string,
  { body, headers = {}, token, signal }: AskOptions = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...headers,
    },
    ...(body !== undefined && { body: isSentUnchanged(body) ? body : JSON.stringify(body) }),
    ...(signal && { signal }),
  });
  const text = await response.text();
  const isJson = /json/.test(response.headers.get("content-type") ?? "");
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
}

function isSentUnchanged(body: unknown): body is string | Uint8Array<ArrayBuffer> {
  return typeof body === "string" || body instanceof Uint8Array;
}

/** One server-sent event. */
export interface SentEvent {
  id: string | undefined;
  event: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects
  data: any;
}

/** Reads the events of a stream as a client does. Ends with the stream; rejects when `signal` is aborted. */
export async function* readEvents(url: string, options: AskOptions = {}): AsyncGenerator<SentEvent> {
  const { headers = {}, token, signal } = options;
  const response = await fetch(url, {
    headers: {
      accept: "text/event-stream",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...headers,
    },
    ...(signal && { signal }),
  });
  if (!response.body || response.status !== 200)
    throw new Error(`${response.status} ${await response.text()}`);
  let rest = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + chunk).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1];
      const [event, data] = [field("event"), field("data")];
      if (event !== undefined && data !== undefined) yield { id: field("id"), event, data: JSON.parse(data) };
    }
  }
}
