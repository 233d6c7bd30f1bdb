/** What a client reads from the events of an answer: where each block is, what it begins with, what was counted. */
import { expect, test } from "vitest";
import { createOfflineModel, type Scenario } from "../../../src/offline/server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

const call = { type: "tool_use" as const, name: "glob", input: { pattern: "**/*" } };
const says = { type: "text" as const, text: "Looking." };

async function answerTo(scenario: Scenario, more: Record<string, unknown> = {}): Promise<Response> {
  const offline = createOfflineModel({ scenario });
  await offline.start();
  closeAtEnd(() => offline.stop());
  const message = { role: "user", content: "hi" };
  const body = JSON.stringify({ model: "m", max_tokens: 100, stream: true, messages: [message], ...more });
  return fetch(`${offline.url}/v1/messages`, { method: "POST", body });
}

async function eventsOf(scenario: Scenario, more: Record<string, unknown> = {}): Promise<unknown[]> {
  const text = await (await answerTo(scenario, more)).text();
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

test("each block stands at its place, and a call begins with an empty input", async () => {
  const events = await eventsOf({ turns: [{ content: [says, call] }] });
  const placed = events.filter((event) => typeof event === "object" && event !== null && "index" in event);
  expect(placed[0]).toMatchObject({ index: 0, content_block: { type: "text", text: "" } });
  expect(placed.at(-1)).toEqual({ type: "content_block_stop", index: 1 });
  expect(placed).toContainEqual(
    expect.objectContaining({
      index: 1,
      content_block: expect.objectContaining({ name: "glob", input: {} }),
    }),
  );
});

test("the end of a stream has all counts and the stop sequence; its beginning has counted one token", async () => {
  const usage = {
    input_tokens: 11,
    output_tokens: 22,
    cache_read_input_tokens: 33,
    cache_creation_input_tokens: 44,
  };
  const turn = { content: [says], stop_reason: "stop_sequence", usage };
  const events = await eventsOf({ turns: [turn] }, { stop_sequences: ["END"] });
  expect(events[0]).toMatchObject({
    message: { usage: { ...usage, output_tokens: 1 }, stop_sequence: null },
  });
  expect(events.at(-2)).toMatchObject({
    delta: { stop_reason: "stop_sequence", stop_sequence: "END" },
    usage,
  });
});

test("a fault behind the last event breaks nothing, one before it is the error that the script names", async () => {
  const turn = (errorAfterChunks: number) => ({
    content: [says],
    stream: { errorAfterChunks, errorType: "api_error" },
  });
  expect((await eventsOf({ turns: [turn(99)] })).at(-1)).toEqual({ type: "message_stop" });
  const broken = await eventsOf({ turns: [turn(1)] });
  expect(broken).toMatchObject([{ type: "message_start" }, { type: "error", error: { type: "api_error" } }]);
});

test("an input that is cut in half is a text where nothing is streamed", async () => {
  const turn = { content: [call], stream: { invalidJsonInput: true } };
  const answer = await answerTo({ turns: [turn] }, { stream: false });
  expect(await answer.json()).toMatchObject({ content: [{ input: '{"pattern' }] });
});

test("where nothing is streamed, a stream that stalls is an answer that never comes, and one that ends early a reset", async () => {
  const stalls = { turns: [{ content: [says], stream: { stallAfterChunks: 1 } }] };
  const signal = AbortSignal.timeout(300);
  const offline = createOfflineModel({ scenario: stalls });
  await offline.start();
  closeAtEnd(() => offline.stop());
  const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "hi" }] });
  const call = () => fetch(`${offline.url}/v1/messages`, { method: "POST", body, signal });
  await expect(call()).rejects.toMatchObject({ name: "TimeoutError" });
  const ends = { turns: [{ content: [says], stream: { truncateAfterChunks: 1 } }] };
  await expect(answerTo(ends, { stream: false })).rejects.toThrow("fetch failed");
});

test("a server whose port was taken starts once that is free", async () => {
  const first = createOfflineModel();
  await first.start();
  const second = createOfflineModel({ port: Number(new URL(first.url).port) });
  closeAtEnd(() => first.stop());
  closeAtEnd(() => second.stop());
  await expect(second.start()).rejects.toMatchObject({ code: "cannot_listen" });
  await first.stop();
  await second.start();
  expect((await fetch(`${second.url}/healthz`)).status).toBe(200);
});

test("an address of IPv6 stands in brackets in the url", () => {
  expect(createOfflineModel({ host: "::1", port: 4_000 }).url).toBe("http://[::1]:4000");
});

test("a stream says that it is one", async () => {
  const answer = await answerTo({ turns: [{ content: [says] }] });
  expect(answer.headers.get("content-type")).toMatch(/^text\/event-stream\b/);
  await answer.text();
});
