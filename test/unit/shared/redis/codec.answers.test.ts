import { expect, test } from "vitest";
import { decodeAnswer, type Fields, int, text } from "../../../../src/shared/redis/codec.ts";

test("a value of an answer that reads like the name of another one is a value", () => {
  const fields: Fields = [
    ["wake", int],
    ["agent_id", text],
  ];
  const answers = new Map([["queued", fields]]);
  const expected = { status: "queued", wake: 3, agent_id: "wake" };
  expect(decodeAnswer("send", answers, ["queued", "agent_id", "wake", "wake", "3"])).toEqual(expected);
  expect(decodeAnswer("send", answers, ["queued", "wake", "3", "agent_id", "wake"])).toEqual(expected);
});
