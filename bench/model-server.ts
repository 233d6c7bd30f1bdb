/**
 * A Messages API server for the benchmark, in its own process: "run T tools" in the prompt makes T turns with calls of
 * `lookup`, then a summary. It parses only what it needs, so that it is never the bottleneck.
 *
 * Path before `/v1/messages`: `/d10` text deltas of a streamed turn, `/w1` milliseconds between them (0: one packet), `/l50`
 * milliseconds before the first byte, `/k5` tool calls a turn. `GET /stats` answers `{calls, mostInFlight}` since `GET /reset`, and the times (epoch ms)
 * of the last call's arrival and answer.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

interface Manner {
  deltas: number;
  gapMs: number;
  latencyMs: number;
  /** Tool calls of a turn. */
  calls: number;
}

const PAD = "The quick brown fox jumps over the lazy dog. ".repeat(5).slice(0, 200);
let stats = { calls: 0, inFlight: 0, mostInFlight: 0 };
const last = { cameAtMs: 0, answeredAtMs: 0 };
let ids = 0;

const server = createServer((request, response) => {
  if (request.method === "GET") return report(request, response);
  last.cameAtMs = nowMs();
  stats.calls += 1;
  stats.inFlight += 1;
  stats.mostInFlight = Math.max(stats.mostInFlight, stats.inFlight);
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const manner = mannerOf(request.url ?? "");
    const answer = () => reply(Buffer.concat(chunks).toString("latin1"), manner, response);
    if (manner.latencyMs > 0) setTimeout(answer, manner.latencyMs);
    else answer();
  });
});

function report(request: IncomingMessage, response: ServerResponse): void {
  if (request.url === "/reset") stats = { ...stats, calls: 0, mostInFlight: 0 };
  response.end(JSON.stringify({ ...stats, ...last }));
}

/** Returns this host's time (epoch ms) with fractions of a millisecond. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

function mannerOf(url: string): Manner {
  const value = (letter: string, otherwise: number) =>
    Number(new RegExp(`/${letter}(\\d+)/`).exec(url)?.[1] ?? otherwise);
  return { deltas: value("d", 10), gapMs: value("w", 0), latencyMs: value("l", 0), calls: value("k", 1) };
}

function reply(body: string, manner: Manner, response: ServerResponse): void {
  const turns = Number(/run (\d+) tools/.exec(body)?.[1] ?? 0);
  const done = Math.floor((body.split('"type":"tool_result"').length - 1) / manner.calls);
  const text = done < turns ? `Step ${done}. ${PAD}` : `Summary after ${done} tools. ${PAD}`;
  const id = (ids++).toString(36).padStart(12, "0");
  const calls = Array.from({ length: done < turns ? manner.calls : 0 }, (_, n) => ({
    type: "tool_use",
    id: `toolu_${id}${n}`,
    name: "lookup",
    // No two calls of a run are equal, because the product ends a run that repeats itself.
    input: { q: n === 0 ? `step ${done}` : `step ${done}, ${n}`, n: done },
  }));
  const inputTokens = body.length >> 2;
  stats.inFlight -= 1;
  if (body.includes('"stream":true')) void stream(response, manner, { id, text, calls, inputTokens });
  else whole(response, { id, text, calls, inputTokens });
  last.answeredAtMs = nowMs();
}

interface Turn {
  id: string;
  text: string;
  calls: { type: string; id: string; name: string; input: object }[];
  inputTokens: number;
}

const usageOf = (inputTokens: number, outputTokens: number) => ({
  input_tokens: inputTokens,
  output_tokens: outputTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
});

function whole(response: ServerResponse, { id, text, calls, inputTokens }: Turn): void {
  const message = {
    id: `msg_${id}`,
    type: "message",
    role: "assistant",
    model: "claude-bench",
    content: [{ type: "text", text }, ...calls],
    stop_reason: calls.length > 0 ? "tool_use" : "end_turn",
    stop_sequence: null,
    usage: usageOf(inputTokens, 42),
  };
  const json = JSON.stringify(message);
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(json) });
  response.end(json);
}

async function stream(response: ServerResponse, manner: Manner, turn: Turn): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  const packets = eventsOf(turn, manner.deltas);
  if (manner.gapMs === 0) return void response.end(packets.join(""));
  for (const packet of packets) {
    response.write(packet);
    await new Promise((resolve) => setTimeout(resolve, manner.gapMs));
  }
  response.end();
}

function eventsOf({ id, text, calls, inputTokens }: Turn, deltas: number): string[] {
  const event = (type: string, data: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
  const message = { id: `msg_${id}`, type: "message", role: "assistant", model: "claude-bench", content: [] };
  const size = text.length / deltas;
  const parts = Array.from({ length: deltas }, (_, n) =>
    text.slice(Math.round(n * size), Math.round((n + 1) * size)),
  );
  const toolCalls = calls.flatMap((call, n) => [
    event("content_block_start", { index: n + 1, content_block: { ...call, input: {} } }),
    event("content_block_delta", {
      index: n + 1,
      delta: { type: "input_json_delta", partial_json: JSON.stringify(call.input) },
    }),
    event("content_block_stop", { index: n + 1 }),
  ]);
  const end = { stop_reason: calls.length > 0 ? "tool_use" : "end_turn", stop_sequence: null };
  return [
    event("message_start", { message: { ...message, stop_reason: null, usage: usageOf(inputTokens, 1) } }) +
      event("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
    ...parts.map((part) =>
      event("content_block_delta", { index: 0, delta: { type: "text_delta", text: part } }),
    ),
    event("content_block_stop", { index: 0 }) +
      toolCalls.join("") +
      event("message_delta", { delta: end, usage: { output_tokens: 42 } }) +
      event("message_stop", {}),
  ];
}

server.keepAliveTimeout = 120_000;
server.listen({ port: 0, host: "127.0.0.1", backlog: 4_096 }, () => {
  const address = server.address();
  if (typeof address === "object" && address) process.send?.({ port: address.port });
});
process.on("disconnect", () => process.exit());
