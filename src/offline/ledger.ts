/**
 * The ledger: one entry for each `POST /v1/messages` that the offline model served.
 *
 * Owns the entries in memory and, if a path is given, the JSONL file to which they are appended.
 * `messages.ts` determines how a call ended.
 *
 * Invariants:
 * 1. `seq` counts from 1 in the order in which calls ended, and never goes back, not even after `clear`.
 * 2. An entry is visible in memory once it is in the file, or waits for it behind all earlier ones: a file that takes nothing
 *    for a while, as on a full disk, has no gap and no broken line afterwards.
 * 3. Memory keeps the newest `MAX_ENTRIES`; the file keeps all.
 */
import { closeSync, openSync, writeSync } from "node:fs";
import type { TokenUsage } from "./wire.ts";

/** One ended call. */
export interface LedgerEntry {
  /** Position in the ledger, from 1. */
  seq: number;
  /** End of the call, epoch milliseconds. */
  at: number;
  /** Arrival of the request, epoch milliseconds. */
  began_at: number;
  /** The request's `Idempotency-Key` header; `null` without one. */
  idempotency_key: string | null;
  /** Hash of system prompt and first user text; empty if the body could not be read. */
  conversation: string;
  /** Index of the requested turn: number of assistant messages in the request. */
  turn: number;
  /** Hash of the messages: two entries with the same hash are the same turn bought twice. */
  request_hash: string;
  stream: boolean;
  /** `served`: the last byte of a whole answer was written to the socket; `aborted`: the client disconnected before. */
  status: "served" | "error" | "aborted";
  /** HTTP status that was sent, or would have been; 0: the connection was reset instead. */
  http_status: number;
  /** The API's error type, also of errors inside a stream; `null` without an error. */
  error_type: string | null;
  stop_reason: string | null;
  usage: TokenUsage | null;
  /** True if the answer had to match a JSON Schema. */
  output_format?: boolean;
  tool_choice: "auto" | "any" | "tool" | "none";
  model: string;
  /** `max_tokens` of the request; 0 if the body could not be read. */
  max_tokens: number;
  /** Number of messages in the request. */
  messages: number;
  /** Names of the tools in the request, in order. */
  tools: string[];
  message_id: string | null;
}

/** The ledger of one server. */
export interface Ledger {
  readonly entries: readonly LedgerEntry[];
  /** Adds one entry. If the file takes nothing now, the entry waits in memory for {@link flush}. */
  record(entry: Omit<LedgerEntry, "seq" | "at">): void;
  /** Writes the entries that wait for the file. Throws the system's error if it still takes nothing: then no call may begin. */
  flush(): void;
  /** Deletes the entries in memory; the file stays. */
  clear(): void;
}

const MAX_ENTRIES = 100_000;

/** Creates an empty ledger. Entries are appended to the file `path`, one JSON object a line. */
export function createLedger(path: string | undefined, now: () => number = Date.now): Ledger {
  let entries: LedgerEntry[] = [];
  let seq = 0;
  let waiting = Buffer.alloc(0);
  const flush = (): void => {
    if (path === undefined || waiting.length === 0) return;
    const file = openSync(path, "a");
    try {
      while (waiting.length > 0) waiting = waiting.subarray(writeSync(file, waiting));
    } finally {
      closeSync(file);
    }
  };
  return {
    flush,
    get entries() {
      return entries;
    },
    record(entry) {
      seq += 1;
      const full: LedgerEntry = { seq, at: now(), ...entry };
      if (path !== undefined) waiting = Buffer.concat([waiting, Buffer.from(`${JSON.stringify(full)}\n`)]);
      entries.push(full);
      if (entries.length > MAX_ENTRIES) entries = entries.slice(MAX_ENTRIES / 10);
      try {
        flush();
      } catch {
        // The call is over. The next one is refused while the file takes nothing.
      }
    },
    clear() {
      entries = [];
    },
  };
}
