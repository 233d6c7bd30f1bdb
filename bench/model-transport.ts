/**
 * What does a model call cost in client CPU, and what does our transport save?
 *
 * Measured: user + system CPU of this process per streamed call, and wall time, against a server in another process.
 * All variants take turns within one run, so only the ratios mean anything. Not measured: TLS, latency, the provider.
 *
 * Usage: npm run bench:transport [-- calls-per-round [rounds]]
 */
import { spawn } from "node:child_process";
import Anthropic from "@anthropic-ai/sdk";
import { systemClock } from "../src/shared/clock.ts";
import { createAnthropicModel } from "../src/worker/model/anthropic.ts";
import { createTransport } from "../src/worker/model/transport.ts";

const DELTAS = 20;
const CALLS_PER_ROUND = Number(process.argv[2] ?? 300);
const ROUNDS = Number(process.argv[3] ?? 6);

/** The server streams one text answer in {@link DELTAS} events, written like a provider does: event by event. */
const SERVER = `
const { createServer } = require("node:http");
const event = (type, data) => "event: " + type + "\\ndata: " + JSON.stringify({ type, ...data }) + "\\n\\n";
const usage = { input_tokens: 1000, output_tokens: 1, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };
const events = [
  event("message_start", { message: { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, usage } }),
  event("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
  ...Array.from({ length: ${DELTAS} }, () => event("content_block_delta", { index: 0, delta: { type: "text_delta", text: "some words of text " } })),
  event("content_block_stop", { index: 0 }),
  event("message_delta", { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 80 } }),
  event("message_stop", {}),
];
createServer((request, response) => {
  request.resume().on("end", () => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const each of events) response.write(each);
    response.end();
  });
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
process.stdin.resume().on("end", () => process.exit());
`;

const server = spawn(process.execPath, ["-e", SERVER], { stdio: ["pipe", "pipe", "inherit"] });
const port = await new Promise<string>((resolve) =>
  server.stdout.once("data", (line) => resolve(String(line).trim())),
);
const baseUrl = `http://127.0.0.1:${port}`;

const body = {
  model: "m",
  max_tokens: 8000,
  messages: Array.from({ length: 9 }, (_, index) => ({
    role: index % 2 === 0 ? ("user" as const) : ("assistant" as const),
    content: [{ type: "text" as const, text: "a sentence of the conversation so far. ".repeat(40) }],
  })),
};
const transport = createTransport({ clock: systemClock });
const model = createAnthropicModel({ apiKey: "bench-key", baseUrl });
const client = (fetch?: typeof globalThis.fetch) =>
  new Anthropic({ apiKey: "bench-key", baseURL: baseUrl, maxRetries: 0, logLevel: "off", fetch });
const overDefault = client();
const overOurs = client(transport.fetch);

async function drain(sdk: Anthropic): Promise<void> {
  for await (const event of await sdk.messages.create({ ...body, stream: true })) void event;
}

const variants: [string, () => Promise<unknown>][] = [
  ["SDK stream, default fetch", () => drain(overDefault)],
  ["SDK stream, our transport", () => drain(overOurs)],
  ["SDK stream helper, default fetch", () => overDefault.messages.stream(body).finalMessage()],
  ["SDK stream helper, our transport", () => overOurs.messages.stream(body).finalMessage()],
  [
    "model port (our transport, turn built)",
    () =>
      model.call(
        { model: "m", system: "", tools: [], toolChoice: "auto", maxTokens: 8000, messages: body.messages },
        { signal: new AbortController().signal },
      ),
  ],
];

const cpuUs = variants.map(() => [] as number[]);
const wallMs = variants.map(() => [] as number[]);
for (let round = -1; round < ROUNDS; round++) {
  for (const [index, [, run]] of variants.entries()) {
    const cpu = process.cpuUsage();
    const start = performance.now();
    for (let call = 0; call < CALLS_PER_ROUND; call++) await run();
    const spent = process.cpuUsage(cpu);
    if (round < 0) continue; // the first round warms up
    cpuUs[index]?.push((spent.user + spent.system) / CALLS_PER_ROUND);
    wallMs[index]?.push((performance.now() - start) / CALLS_PER_ROUND);
  }
}
await model.stop();
await transport.close();
server.stdin.end();

const median = (values: number[] = []) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
const reference = median(cpuUs[0]);
console.log(`${DELTAS} deltas a call, ${ROUNDS} rounds of ${CALLS_PER_ROUND} calls, medians`);
for (const [index, [name]] of variants.entries()) {
  const us = median(cpuUs[index]);
  console.log(
    `${name.padEnd(42)} ${us.toFixed(0).padStart(6)} µs CPU  ${median(wallMs[index]).toFixed(2).padStart(6)} ms  ratio ${(us / reference).toFixed(2)}`,
  );
}
