/** The evidence that a chaos run leaves for the oracle, and indexes over it. Pure. */
import type { LedgerEntry } from "../../src/offline/server.ts";
import type { Reply } from "../../src/shared/protocol/reply.ts";
import type { UsageTotals } from "../../src/shared/protocol/usage.ts";
import type { JournalLine } from "../helpers/tool-journal.ts";
import type { RecordedChange } from "./chronicle.ts";
import type { LoadRecord, Told } from "./load.ts";
import type { StaleAsk } from "./stale-asks.ts";
import type { Story } from "./stories.ts";
import type { Fault } from "./strikes.ts";

/** The result of a run, to compare with the undisturbed run of the same story. */
export type Outcome = Pick<Reply, "status" | "stop_reason" | "summary" | "turns" | "tools_called">;

/** A broken guarantee. */
export interface Violation {
  /** The guarantee that was broken, as a sentence. */
  broken: string;
  detail: string;
  uid?: string;
}

/** All observations of a chaos run. */
export interface Evidence {
  stories: readonly Story[];
  load: LoadRecord;
  /** Results of the runs without faults, by `<story>.<run>`. */
  undisturbed: ReadonlyMap<string, Outcome>;
  faults: readonly Fault[];
  happenings: readonly RecordedChange[];
  /** Verbs sent with an epoch that was no longer the agent's. */
  staleAsks: readonly StaleAsk[];
  ledger: readonly LedgerEntry[];
  /** Usage that the product reports to each parent. */
  spent: readonly UsageTotals[];
  journal: readonly JournalLine[];
  collapses: readonly string[];
  /** By `<parent>/<agent_id>`: the lines in `notes.txt` and `looks.txt` of its workspace. */
  workspaces: ReadonlyMap<string, { notes: readonly string[]; looks: readonly string[] }>;
}

/** Returns the key of a run in {@link Evidence.undisturbed}. */
export const outcomeKey = (story: Story, run: number): string => `${story.number}.${run}`;

/** Indexes over the evidence. */
export interface Lookup {
  /** `<parent>/<agent_id>` → uid. */
  uids: ReadonlyMap<string, string>;
  /** `<uid> <log entry>` → time of its first write, epoch ms. */
  committedAt: ReadonlyMap<string, number>;
  /** uid → its claims, oldest first. */
  claims: ReadonlyMap<string, readonly Extract<RecordedChange, { what: "claimed" }>[]>;
  /** `<uid> <tool_use id>` → the first committed result. */
  results: ReadonlyMap<string, { at: number; interrupted: boolean }>;
  uidOf(told: Told): string | undefined;
}

/** Builds the indexes. */
export function lookUp({ happenings }: Pick<Evidence, "happenings">): Lookup {
  const uids = new Map<string, string>();
  const committedAt = new Map<string, number>();
  const claims = new Map<string, Extract<RecordedChange, { what: "claimed" }>[]>();
  const results = new Map<string, { at: number; interrupted: boolean }>();
  for (const one of happenings) {
    const { uid } = one;
    if (one.what === "spawned") uids.set(`${one.parentId}/${one.agentId}`, uid);
    if (one.what === "claimed") claims.set(uid, [...(claims.get(uid) ?? []), one]);
    if (one.what !== "committed") continue;
    const key = `${uid} ${one.entry}`;
    if (committedAt.has(key)) continue;
    committedAt.set(key, one.at);
    const [, call] = /^\d+\/(.+)\/result$/s.exec(one.entry) ?? [];
    if (call !== undefined) results.set(`${uid} ${call}`, one);
  }
  const uidOf = ({ parentId, agentId }: Told) => uids.get(`${parentId}/${agentId}`);
  return { uids, committedAt, claims, results, uidOf };
}

/** Counts how often each item occurs. */
export function countOf<T>(items: Iterable<T>): Map<T, number> {
  const counts = new Map<T, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
}
