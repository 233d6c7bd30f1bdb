/** The log of an agent as the loop sees it: each entry parsed once and filed under the message it belongs to. */

import { SubagentError } from "../../shared/errors.ts";
import {
  AssistantEntry,
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
  readonly deliveries: Map<number, UserEntry>;
  readonly turns: Map<number, AssistantEntry>;
  /** Calls that began, by `n/<tool_use_id>`. */
  readonly started: Map<string, ToolStartedEntry>;
  /** Results of calls, by `n/<tool_use_id>`. */
  readonly results: Map<string, ToolResultEntry>;
  readonly failures: Map<number, FailureEntry>;
  readonly notices: Map<number, NoticeEntry>;
  /** Calls paid for in vain, by entry key. */
  readonly purchases: Map<string, PurchaseEntry>;
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
  /** Workers that died in this run one after the other without committing a step. */
  barrenDeaths: number;
}

/** A log without entries. */
export function emptyEntries(): LogEntries {
  return {
    deliveries: new Map(),
    turns: new Map(),
    started: new Map(),
    results: new Map(),
    failures: new Map(),
    notices: new Map(),
    purchases: new Map(),
  };
}

/** Files one stored entry. Throws `protocol_violation` for a key or shape this version does not know. */
export function fileEntry(entries: LogEntries, key: string, json: string): void {
  const value: unknown = JSON.parse(json);
  const slash = key.indexOf("/");
  const n = Number(slash < 0 ? key : key.slice(0, slash));
  const rest = slash < 0 ? "" : key.slice(slash + 1);
  const call = key.slice(0, key.lastIndexOf("/"));
  if (rest === "" && n % 2 === 0) entries.deliveries.set(n, UserEntry.parse(value));
  else if (rest === "") entries.turns.set(n, AssistantEntry.parse(value));
  else if (rest === "failure") entries.failures.set(n, FailureEntry.parse(value));
  else if (rest === "notice") entries.notices.set(n, NoticeEntry.parse(value));
  else if (rest.startsWith("purchase/")) entries.purchases.set(key, PurchaseEntry.parse(value));
  else if (rest.endsWith("/started")) entries.started.set(call, ToolStartedEntry.parse(value));
  else if (rest.endsWith("/result")) entries.results.set(call, ToolResultEntry.parse(value));
  else
    throw new SubagentError(
      "protocol_violation",
      `Log entry "${key}" is of a kind this version does not know.`,
    );
}

/** All entries of a stored log. */
export function fileEntries(stored: ReadonlyMap<string, string>): LogEntries {
  const entries = emptyEntries();
  for (const [key, json] of stored) fileEntry(entries, key, json);
  return entries;
}
