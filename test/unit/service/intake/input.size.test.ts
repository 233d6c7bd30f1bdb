import { expect, test } from "vitest";
import { inputOfEntry, inputOfJob } from "../../../../src/service/intake/input.ts";
import { MESSAGE_MAX_BYTES } from "../../../../src/shared/protocol/message.ts";

test.each([
  ["quotes", '"'],
  ["control characters", "\u0001"],
])("an entry full of %s is no longer as a job, in which it waits for room", (_, sign) => {
  const text = sign.repeat(MESSAGE_MAX_BYTES - 1);
  const entry = inputOfEntry(["parent_id", "shell", "prompt", `x${text}`, "system", `x${text}`]);
  const data: unknown = JSON.parse(JSON.stringify(entry));
  expect(inputOfJob({ data }, false)).toEqual(entry);
});
