/** Guarantee: no answer of a provider fills the memory or stops the process, and what it cost is known. */
import { spawn } from "node:child_process";
import { expect, test } from "vitest";
import type { CallOutcome } from "../../src/worker/model/model.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { ask, connect, hold } from "../unit/worker/model/scripted-provider.ts";

/** Most tokens that a run may ask for: the widest bound on its answers. */
const MOST_TOKENS = 64_000;
const MOST_GROWTH_MB = 64;
const LONGEST_SILENCE_MS = 250;
/** The least silence of so many calls counts: on a busy core the same work takes more of its time. */
const TRIES = 3;

/** The provider, in a process of its own: its memory is not ours. The path names what it answers with. */
const SERVER = `
const usage = { input_tokens: 11, output_tokens: 1 };
const message = { id: "m", type: "message", role: "assistant", model: "m", content: [], stop_reason: null, usage };
const event = (type, data) => "event: " + type + "\\ndata: " + JSON.stringify({ type, ...data }) + "\\n\\n";
const call = (id, name, input = {}) => ({ type: "tool_use", id, name, input });
const many = (count, make) => Array.from({ length: count }, (_, i) => make(i));
const DEEP = "[".repeat(500_000) + "]".repeat(500_000);
const deep = (json) => json.replaceAll('"DEEP"', DEEP).replaceAll('\\\\"DEEP\\\\"', DEEP);
const ANSWERS = {
  text: () => [{ type: "text", text: "x".repeat(60_000_000) }],
  names: () => many(300, (i) => call("t" + i, "n".repeat(10_000))),
  ids: () => many(10_000, () => call("same", "look")),
  calls: () => many(600, (i) => call("t" + i, "look")),
  input: () => [call("t", "look", { a: "DEEP" })],
  opaque: () => [{ type: "odd", x: "DEEP" }],
};
const eventsOf = (block, index) => {
  const { text, input } = block;
  const opened = { ...block, ...(text && { text: "" }), ...(input && { input: {} }) };
  const delta = text ? { type: "text_delta", text } : { type: "input_json_delta", partial_json: JSON.stringify(input) };
  return event("content_block_start", { index, content_block: opened }) +
    (text || input ? event("content_block_delta", { index, delta }) : "") + event("content_block_stop", { index });
};
require("node:http").createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk)).on("end", () => {
    const stop_reason = "tool_use";
    const content = ANSWERS[request.url.split("/")[1]]();
    if (!Buffer.concat(chunks).includes('"stream":true')) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(deep(JSON.stringify({ ...message, content, stop_reason, usage: { ...usage, output_tokens: 77 } })));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(event("message_start", { message }));
    for (const [index, block] of content.entries()) response.write(deep(eventsOf(block, index)));
    response.end(event("message_delta", { delta: { stop_reason }, usage: { output_tokens: 77 } }) + event("message_stop"));
  });
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
process.stdin.resume().on("end", () => process.exit());
`;

async function startServer(): Promise<string> {
  const server = spawn(process.execPath, ["-e", SERVER], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise((resolve) => server.once("exit", resolve));
  closeAtEnd(async () => {
    server.stdin.end();
    await exited;
  });
  const port = await new Promise((resolve) =>
    server.stdout.once("data", (line) => resolve(`${line}`.trim())),
  );
  return `http://127.0.0.1:${port}`;
}

/** The call, by how much memory grew in it, and the longest time for which nothing else ran. */
async function answerTo(baseUrl: string, stream: boolean) {
  const model = connect({ baseUrl });
  const { rss } = process.memoryUsage();
  const seen = { peak: rss, silenceMs: 0 };
  let lastMs = performance.now();
  let cpu = process.cpuUsage();
  const look = () => {
    const { user, system } = process.cpuUsage(cpu);
    const nowMs = performance.now();
    // On a busy machine time passes in which this process did nothing at all.
    seen.silenceMs = Math.max(seen.silenceMs, Math.min(nowMs - lastMs, (user + system) / 1_000));
    seen.peak = Math.max(seen.peak, process.memoryUsage().rss);
    lastMs = nowMs;
    cpu = process.cpuUsage();
  };
  const looking = setInterval(look, 2);
  const outcome = await model.call(ask({ maxTokens: MOST_TOKENS, stream }), hold());
  look();
  clearInterval(looking);
  return { outcome, growthMb: (seen.peak - rss) / 2 ** 20, silenceMs: seen.silenceMs };
}

const USAGE = { input_tokens: 11, output_tokens: 77 };

/** So much that not even its end is waited for. */
function expectCutOff(outcome: CallOutcome): void {
  expect(outcome).toMatchObject({ status: "failed", failure: { kind: "invalid_response", retryable: true } });
  expect(outcome).toHaveProperty("usage");
}

/** Too large to be kept, but read to its end: there stands what it cost. */
function expectTooLarge(outcome: CallOutcome): void {
  expect(outcome).toMatchObject({
    status: "failed",
    failure: { kind: "invalid_response", retryable: true },
    usage: USAGE,
  });
}

function refusedOf(outcome: CallOutcome, blocks: number): string[] {
  if (outcome.status !== "answer") expect.fail(JSON.stringify(outcome));
  const { answer } = outcome;
  expect(answer.usage).toMatchObject(USAGE);
  expect(answer.content).toHaveLength(blocks);
  expect(JSON.parse(answer.contentJson)).toEqual(answer.content);
  return [...answer.refusedCalls.keys()];
}

test.for([
  ["text", "60 MB of text", expectCutOff],
  ["names", "300 calls with names of 10 KB", expectTooLarge],
  ["ids", "10,000 calls with one id", expectTooLarge],
  ["calls", "600 small calls", (outcome) => expect(refusedOf(outcome, 600)).toHaveLength(600 - 64)],
  ["input", "an input of 500,000 levels", (outcome) => expect(refusedOf(outcome, 1)).toEqual(["t"])],
  ["opaque", "an unknown block of 500,000 levels", expectTooLarge],
] satisfies [string, string, (outcome: CallOutcome) => void][])(
  "%s: %s neither fill the memory nor stop the process, streamed or not",
  async ([answers, , expectation]) => {
    const server = await startServer();
    const baseUrl = `${server}/${answers}`;
    for (const stream of [false, true]) {
      // What the first call of a process loads and compiles is no growth.
      await answerTo(`${server}/calls`, stream);
      let leastSilenceMs = Number.POSITIVE_INFINITY;
      for (let tries = 0; tries < TRIES && leastSilenceMs >= LONGEST_SILENCE_MS; tries++) {
        const { outcome, growthMb, silenceMs } = await answerTo(baseUrl, stream);
        expectation(outcome);
        expect(growthMb).toBeLessThan(MOST_GROWTH_MB);
        leastSilenceMs = Math.min(leastSilenceMs, silenceMs);
      }
      expect(leastSilenceMs).toBeLessThan(LONGEST_SILENCE_MS);
    }
  },
);
