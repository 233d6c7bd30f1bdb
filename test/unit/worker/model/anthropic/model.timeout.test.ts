import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { until } from "../../../../helpers/until.ts";
import {
  ask,
  connect,
  event,
  hold,
  messageEnd,
  messageStart,
  startProvider,
  textBlock,
} from "../scripted-provider.ts";

const delta = event("content_block_delta", { index: 0, delta: { type: "text_delta", text: "x" } });
/** Shorter than the longest silence. */
const STEP_MS = 80_000;

/** A streamed answer that writes for `ms` of the model's clock, and then goes on only if it is told to end. */
async function writesFor(ms: number, maxTokens: number, timeoutMs?: number) {
  const clock = handClock();
  let response: ServerResponse | undefined;
  const provider = await startProvider((begun) => {
    response = begun.writeHead(200, { "content-type": "text/event-stream" });
    response.write(messageStart() + textBlock(0, "x"));
  });
  let heard = 0;
  const onText = (text: string) => {
    heard += text.length;
  };
  const model = connect(provider, { clock, ...(timeoutMs !== undefined && { timeoutMs }) });
  const call = model.call(ask({ maxTokens }), hold({ onText }));
  let isOver = false;
  void call.then(() => {
    isOver = true;
  });
  for (let [at, sent] = [0, 1]; at < ms && !isOver; sent += 1) {
    await until(() => heard === sent || isOver);
    const step = Math.min(STEP_MS, ms - at);
    clock.advance(step);
    at += step;
    response?.write(delta);
  }
  return { call, end: () => response?.end(messageEnd()), goOn: (more: number) => clock.advance(more) };
}

test("an answer has the time that its tokens may take: one of 64,000 is not cut off, and bought again, after ten minutes", async () => {
  const { call, end } = await writesFor(1_900_000, 64_000);
  end();
  expect((await call).status).toBe("answer");
});

test.each([
  ["64,000 tokens no more than that", 1_979_000, 64_000, undefined, 1_980_000],
  ["few tokens ten minutes", 599_000, 8_000, undefined, 600_000],
  ["64,000 tokens what the operator says", 599_000, 64_000, 600_000, 600_000],
])("an answer of %s", async (_, ms, maxTokens, timeoutMs, limitMs) => {
  const { call, goOn } = await writesFor(ms, maxTokens, timeoutMs);
  goOn(1_000);
  expect(await call).toMatchObject({
    status: "failed",
    failure: { kind: "timeout", message: `the call took longer than ${limitMs} ms` },
  });
});
