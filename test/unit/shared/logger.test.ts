import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";

/** What a logger writes for a message, without level and time. */
function messageWritten(message: string): string {
  const lines: string[] = [];
  createLogger({ destination: { write: (line) => void lines.push(line) } }).info(message);
  return JSON.parse(lines.join("")).msg;
}

test.each([
  ["a key by its form", "the key sk-ant-0123456789 was refused", "the key [redacted] was refused"],
  ["a bearer token", "sent Authorization: Bearer abc.def to it", "sent Authorization: [redacted] to it"],
  [
    "the login of an address",
    "reading https://me:hush@host/a failed",
    "reading https://[redacted]@host/a failed",
  ],
])("%s that nobody named as a secret stands in no log line", (_, message, written) => {
  expect(messageWritten(message)).toBe(written);
});

test("an ordinary line is written as it is", () => {
  const message = "a task-list of https://host/a, asked by the bearer of news";
  expect(messageWritten(message)).toBe(message);
});
