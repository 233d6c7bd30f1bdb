/** The log of an agent as the loop sees it: each entry parsed once and filed under the message it belongs to. */
import {
  AssistantEntry,
  EntryKey,
  FailureEntry,
  NoticeEntry,
  PurchaseEntry,
  ToolResultEntry,
  ToolStartedEntry,
  UserEntry,
} from "../../shared/protocol/log.ts";
import type { InboxMessage } from "../../shared/protocol/message.ts";

/** The entries, filed by kind. Message numbers are even for the user, odd for the model. */
export interface LogEntries {
  readonly deliveries: ReadonlyMap<number, UserEntry>;
  readonly turns: ReadonlyMap<number, AssistantEntry>;
  /** Calls that began, by `n/<tool_use_id>`. */
  readonly started: ReadonlyMap<string, ToolStartedEntry>;
  /** Results of calls, by `n/<tool_use_id>`. */
  readonly results: ReadonlyMap<string, ToolResultEntry>;
  readonly failures: ReadonlyMap<number, FailureEntry>;
  readonly notices: ReadonlyMap<number, NoticeEntry>;
  /** Calls paid for in vain, by entry key, each with the message that it was to bring. */
  readonly purchases: ReadonlyMap<string, PurchaseEntry & { message: number }>;
}

/** Everything `next` decides on. */
export interface Log {
  entries: LogEntries;
  /** Number of the current run. */
  run: number;
  /** Messages of the parent that no entry has consumed yet, and how many were consumed before them. */
  unread: readonly InboxMessage[];
  inboxRead: number;
  /** Running time of this run, ms. */
  elapsedMs: number;
  /** The parent asked for a graceful end. */
  finish: boolean;
}

/** A log without entries. */
export const NO_ENTRIES: LogEntries = copyOf();

/**
 * `entries` and, filed among them, further stored ones (entry key, JSON). Throws a zod error for a key or a shape that
 * this version does not know.
 */
export function withEntries(
  entries: LogEntries,
  stored: Iterable<readonly [key: string, json: string]>,
): LogEntries {
  const files = copyOf(entries);
  for (const [key, json] of stored) file(files, key, JSON.parse(json));
  return files;
}

/** How many entries there are of all kinds. */
export function sizeOf(entries: LogEntries): number {
  return Object.values(entries).reduce((sum, { size }) => sum + size, 0);
}

function copyOf(entries?: LogEntries) {
  return {
    deliveries: new Map(entries?.deliveries),
    turns: new Map(entries?.turns),
    started: new Map(entries?.started),
    results: new Map(entries?.results),
    failures: new Map(entries?.failures),
    notices: new Map(entries?.notices),
    purchases: new Map(entries?.purchases),
  };
}

function file(files: ReturnType<typeof copyOf>, key: string, value: unknown): void {
  const { message: n, kind, callId } = EntryKey.parse(key);
  switch (kind) {
    case "started":
      files.started.set(`${n}/${callId}`, ToolStartedEntry.parse(value));
      break;
    case "result":
      files.results.set(`${n}/${callId}`, ToolResultEntry.parse(value));
      break;
    case "failure":
      files.failures.set(n, FailureEntry.parse(value));
      break;
    case "notice":
      files.notices.set(n, NoticeEntry.parse(value));
      break;
    case "purchase":
      files.purchases.set(key, { ...PurchaseEntry.parse(value), message: n });
      break;
    default:
      if (n % 2 === 0) files.deliveries.set(n, UserEntry.parse(value));
      else files.turns.set(n, AssistantEntry.parse(value));
  }
}
