/** Guarantee: what an entry stores is all that the next worker needs to go on from it. */
import { expect, test } from "vitest";
import type { DeliveredMessage } from "../../../../src/shared/protocol/log.ts";
import {
  type LoggedAnswer,
  newAnswer,
  newCleared,
  newCompacted,
  newDelivery,
  newResult,
  newVerdict,
  paidIn,
  readEntry,
} from "../../../../src/worker/loop/log.ts";
import { used } from "./story.ts";

const image = { name: "a.png", media_type: "image/png", base64: "QUJD" } as const;

test("a message keeps its note and its images, which stand behind its text", () => {
  const messages: DeliveredMessage[] = [
    { v: 1, message_id: "m1", text: "Look at this." },
    { v: 1, message_id: "m2", text: "And at that.", note: "Its files: b.txt", images: [image] },
  ];
  const { key, json, entry } = newDelivery(4, 2, messages);
  expect(readEntry(key, json)).toEqual(entry);
  expect(entry).toMatchObject({ message: 4, run: 2, hasFiles: true });
  expect(entry.kind === "delivery" && entry.partsJson.map((part) => JSON.parse(part))).toEqual([
    "Look at this.",
    "And at that.",
    "Its files: b.txt",
    { type: "image", source: { type: "base64", media_type: "image/png", data: "QUJD" } },
  ]);
});

test("a message without a note has brought no files", () => {
  expect(newDelivery(0, 1, [{ v: 1, message_id: "m", text: "Go.", images: [image] }]).entry).toMatchObject({
    hasFiles: false,
  });
});

test("an answer whose call has a member called content is sent back as it came", () => {
  const contentJson = '[{"type":"tool_use","id":"a","name":"write_file","input":{"path":"x","content":"y"}}]';
  const answer: LoggedAnswer = {
    content: JSON.parse(contentJson),
    contentJson,
    stopReason: "tool_use",
    model: "m",
    usage: used(4),
    costUsd: 0.5,
  };
  const { key, json } = newAnswer(1, answer, 1);
  expect(readEntry(key, json)).toMatchObject({ contentJson });
});

test("a call that was not allowed is read again as one", () => {
  const { key, json, entry } = newResult(1, "a", "no", { isError: true, isDenied: true });
  expect(readEntry(key, json)).toEqual(entry);
});

test("a result tells how long its call took, and that a crash cut it off", () => {
  expect(newResult(1, "a", "cut", { isError: true, isInterrupted: true, durationMs: 1.6 }).json).toBe(
    '{"v":1,"content":"cut","is_error":true,"duration_ms":2,"interrupted":true}',
  );
});

test("a summary is read again as it was bought, and its head has the price without the text", () => {
  const value = {
    v: 1 as const,
    before: 5,
    summary: 'What "summary" stands for.',
    model: "m",
    usage: used(7),
    cost_usd: 0.5,
    duration_ms: 1,
  };
  const { key, json, head = "", entry } = newCompacted(8, value);
  expect(readEntry(key, json)).toEqual(entry);
  expect(paidIn(entry)).toEqual({ usage: used(7), costUsd: 0.5 });
  expect(json.startsWith(head)).toBe(true);
  expect(JSON.parse(`${head.slice(0, -1)}}`)).toEqual({ v: 1, usage: [0, 7], before: 5 });
});

test("a verdict and an omission are read again as they were made", () => {
  for (const { key, json, entry } of [
    newVerdict(3, { v: 1, fits: false, problem: "at #: no object", final: true }),
    newCleared(4, { v: 1, through: 1, go_on: true }),
  ])
    expect(readEntry(key, json)).toEqual(entry);
});
