import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createLedger } from "../../../src/offline/ledger.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "offline-ledger-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

const entry = {
  began_at: 5,
  idempotency_key: null,
  conversation: "c",
  turn: 0,
  request_hash: "h",
  stream: false,
  status: "served" as const,
  http_status: 200,
  error_type: null,
  stop_reason: "end_turn",
  usage: null,
  tool_choice: "auto" as const,
  model: "m",
  max_tokens: 1,
  messages: 1,
  tools: [],
  message_id: "msg_1",
};

it("appends each entry to its file as one line, numbered on after it was cleared", () => {
  const path = join(directory, "ledger.jsonl");
  const ledger = createLedger(path, () => 7);
  ledger.record(entry);
  ledger.clear();
  ledger.record({ ...entry, turn: 1 });
  expect(ledger.entries).toEqual([{ ...entry, seq: 2, at: 7, turn: 1 }]);
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  expect(lines.map((line) => JSON.parse(line).seq)).toEqual([1, 2]);
});

it("keeps an entry for which its file has no room, and writes it when there is", () => {
  const path = join(directory, "later", "ledger.jsonl");
  const ledger = createLedger(path);
  ledger.record(entry);
  expect(() => ledger.flush()).toThrow(/ENOENT/);
  mkdirSync(join(directory, "later"));
  ledger.record({ ...entry, turn: 1 });
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  expect(lines.map((line) => JSON.parse(line).seq)).toEqual([1, 2]);
  expect(ledger.entries.map(({ seq }) => seq)).toEqual([1, 2]);
});

it("keeps the newest entries only", () => {
  const ledger = createLedger(undefined);
  for (let count = 0; count < 100_001; count += 1) ledger.record(entry);
  expect(ledger.entries.length).toBe(90_001);
  expect(ledger.entries.at(-1)?.seq).toBe(100_001);
});
