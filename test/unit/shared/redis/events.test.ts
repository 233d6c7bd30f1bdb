import { expect, test } from "vitest";
import type { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import { parseMessage } from "../../../../src/shared/redis/events.ts";

const event: ProgressEvent = {
  v: 1,
  type: "text_delta",
  agent_id: "researcher",
  name: "Researcher",
  run: 1,
  turn: 1,
  text: "half",
};

test("an event comes back as it was published", () => {
  expect(parseMessage(JSON.stringify(event)).events).toEqual([event]);
});

test.for([
  "",
  "{",
  "null",
  "[]",
  JSON.stringify({ ...event, v: 2 }),
  JSON.stringify({ ...event, type: "new" }),
])("what this version does not know (%j) is no event and no error", (message) => {
  expect(parseMessage(message).events).toEqual([]);
});
