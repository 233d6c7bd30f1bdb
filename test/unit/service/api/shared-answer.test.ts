/** The tag of an answer that all clients share: what a client keeps is asked for again once one byte is another. */
import { expect, test } from "vitest";
import { sharedAnswer } from "../../../../src/service/api/shared-answer.ts";

test("the same content has one tag, another one of the same length has another", () => {
  const { bytes, tag } = sharedAnswer("page 1");
  expect(bytes.toString()).toBe("page 1");
  expect(sharedAnswer(Buffer.from("page 1")).tag).toBe(tag);
  expect(sharedAnswer("page 2").tag).not.toBe(tag);
});
