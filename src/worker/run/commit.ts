/** What one commit of a run takes to Redis, and what becomes of it. Types only. */
import type { ReplyBody } from "../../shared/protocol/reply.ts";
import type { Input } from "../../shared/redis/scripts.ts";
import type { NewEntry } from "../loop/log.ts";

/** What became of a commit: `adopted` means that another content had been committed before, and stands. */
export type Committed = "committed" | "adopted" | "lost";

/** An interim message for the parent. */
export interface InterimMessage {
  id: string;
  body: string;
}

/** What one commit takes along, and what it leaves known. */
export interface Commitment {
  input: CommitInput;
  entries: readonly NewEntry[];
  /** Whether the run comes further with it. */
  advances: boolean;
  /** How many entries the log has after it. */
  entriesAfter: number;
  /** What the run has come to, where the commitment carries it, and its last text where that had to be cut. */
  told: { progress: ReplyBody; whole: string } | undefined;
}

/** Messages that are consumed but still lie in Redis' inbox: from which cursor to which, their ids, and names of what came with them. */
export interface Consumed {
  from: number;
  to: number;
  ids: readonly string[];
  taken: readonly string[];
}

/** What the verb that commits is told; an interim message and the purchase that follows are filled in last. */
export type CommitInput = Input<"append">;
