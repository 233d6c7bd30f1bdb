/**
 * The verbs with which an operator looks at an agent and repairs what stands around it: a part of the table in `verbs.ts`,
 * whose head says what holds for all.
 */
import { flag, int, text } from "./codec.ts";
import type { Verb } from "./verb.ts";

/** The verbs of `doctor`. */
export const INSPECT_VERBS = {
  /** What stands in one slot about one agent, at one moment; changes nothing. Times are epoch ms, 0: none. */
  inspect: {
    keys: ["record", "log", "inbox", "attachments", "life", "timeline", "live", "registry"],
    context: ["uid"],
    args: {},
    answers: {
      found: {
        now: int,
        version: int,
        agent_id: text,
        agent_status: text,
        deadline: int,
        lease_until: int,
        since: int,
        max_age_ms: int,
        wake: int,
        worker: text,
        crashes: int,
        breaks: int,
        /** As PTTL answers. */
        life_ms: int,
        log: int,
        inbox: int,
        counted: flag,
        named: flag,
      },
      gone: { now: int, life_ms: int, log: int, inbox: int, attachments: int, timeline: int, counted: flag },
    },
  },
  /** Brings what stands around an agent in line with its record; takes nothing from an agent that lives. */
  mend: {
    keys: ["record", "log", "inbox", "attachments", "life", "timeline", "live", "registry"],
    context: ["uid", "registry_ttl_ms"],
    args: {},
    answers: { mended: { removed: int, counted: flag, named: flag }, whole: {} },
  },
} as const satisfies Readonly<Record<string, Verb>>;
