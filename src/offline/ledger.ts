/**
 * The ledger of every `POST /v1/messages` the offline model answered.
 *
 * Owns: the entries in memory and, when a path is given, the JSONL file they are appended to.
 * Its neighbour `messages-route` decides how a call ended.
 *
 * Invariants:
 * 1. `seq` counts from 1 in the order in which calls ended, and never goes back, not even after `clear`.
 * 2. An entry is in the file before anybody can see it in memory.
 * 3. Memory keeps the newest `MAX_ENTRIES`; the file keeps all.
 */
import { appendFileSync } from "node:fs";
import type { TokenUsage } from "./wire.ts";

/** How a call ended. */
export interface LedgerEntry {
  /** Position in the ledger, from 1. */
  seq: number;
  /** When the call ended, epoch milliseconds. */
  at: number;
  /** When the request came in, epoch milliseconds. */
  began_at: number;
  /** The request's `Idempotency-Key` header; `null` without one. */
  idempotency_key: string | null;
  /** Hash of system prompt and first user text; empty when the body could not be read. */
  conversation: string;
  /** Index of the turn asked for: assistant messages in the request. */
  turn: number;
  /** Hash of the messages: two entries with the same one are the same turn bought twice. */
  request_hash: string;
  stream: boolean;
  /** `served` only when the last byte of a whole answer was handed to the socket; `aborted` when the client left before that. */
  status: "served" | "error" | "aborted";
  /** The HTTP status that was sent or would have been. */
  http_status: number;
  /** The API's error type, also of errors inside a stream; `null` without an error. */
  error_type: string | null;
  stop_reason: string | null;
  usage: TokenUsage | null;
  /** Whether the answer had to keep to a JSON Schema. */
  output_format?: boolean;
  tool_choice: "auto" | "any" | "tool" | "none";
  model: string;
  /** What the request asked for at most; 0 when the body could not be read. */
  max_tokens: number;
  /** Messages in the request. */
  messages: number;
  /** Names of the tools it offered, in order. */
  tools: string[];
  message_id: string | null;
}

/** See the module header. */
export interface Ledger {
  readonly entries: readonly LedgerEntry[];
  /** Writes one entry. Throws when the file can no longer be appended to: a ledger with holes proves nothing. */
  record(entry: Omit<LedgerEntry, "seq" | "at">): void;
  /** Forgets the entries in memory; the file stays. */
  clear(): void;
}

const MAX_ENTRIES = 100_000;

/** Creates an empty ledger. `path` is appended to, one JSON object a line. */
export function createLedger(path: string | undefined, now: () => number = Date.now): Ledger {
  let entries: LedgerEntry[] = [];
  let seq = 0;
  return {
    get entries() {
      return entries;
    },
    record(entry) {
      seq += 1;
      const full: LedgerEntry = { seq, at: now(), ...entry };
      if (path !== undefined) appendFileSync(path, `${JSON.stringify(full)}\n`);
      entries.push(full);
      if (entries.length > MAX_ENTRIES) entries = entries.slice(MAX_ENTRIES / 10);
    },
    clear() {
      entries = [];
    },
  };
}
