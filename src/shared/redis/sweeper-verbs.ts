/**
 * Verbs of a sweeper, which checks an agent, and of `doctor`, which examines one and repairs the keys around it. A part of
 * the table in `verbs.ts`, whose header has the common rules.
 */
import { flag, int, names, optional, text } from "./codec.ts";
import type { Verb } from "./verb.ts";

/** Verbs of a sweeper and of `doctor`. */
export const SWEEPER_VERBS = {
  /**
   * Tells a sweeper what to do about this agent; changes nothing. `parent_gone`: settle it. `must_finish`: its parent is gone,
   * and its run must report what it has. `lease_over`: requeue it. `queued`: requeue it unless its job waits for a worker;
   * `waited_ms` is the time since its first deadline.
   */
  overdue: {
    keys: ["record", "life", "parent_lease"],
    context: ["version", "check_ms", "tools_ms"],
    args: {},
    answers: {
      not_due: { deadline: int },
      idle_over: {},
      max_age_over: {},
      answer_due: {},
      /** No worker that took its wake had these tools. */
      tools_missing: { needs_tools: optional(names), wake: int, agent_id: text, waited_ms: int },
      parent_gone: {},
      must_finish: { agent_id: text },
      lease_over: { wake: int, agent_id: text },
      queued: { wake: int, agent_id: text, waited_ms: int },
      ended: {},
      unknown: {},
    },
  },
  /** Replaces a wake that no worker will take; call it after a hint to the deadline set. Add the job of the new wake. */
  requeue: {
    keys: ["record"],
    context: ["check_ms"],
    args: { expected_wake: int },
    answers: { wake: { wake: int }, not_due: {} },
  },
  /** Ends the delay of a run that waits for its provider. Its wake stays the same: end the delay of its job as well. */
  promote: {
    keys: ["record"],
    context: [],
    args: {},
    answers: { promoted: { wake: int }, coming: {}, gone: {} },
  },
  /** Reads the state of one agent from one cluster slot, at one moment; changes nothing. Times are epoch ms, 0: none. */
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
        /** The time at which an unanswered message ends it. */
        too_old_at: int,
        wake: int,
        worker: text,
        crashes: int,
        breaks: int,
        /** Remaining ms, as PTTL answers. */
        life_ms: int,
        log: int,
        inbox: int,
        counted: flag,
        named: flag,
      },
      gone: { now: int, life_ms: int, log: int, inbox: int, attachments: int, timeline: int, counted: flag },
    },
  },
  /** Brings the keys around an agent in line with its record; deletes nothing of a living agent. */
  repair: {
    keys: ["record", "log", "inbox", "attachments", "life", "timeline", "live", "registry"],
    context: ["uid", "registry_ttl_ms"],
    args: {},
    answers: { repaired: { removed: int, counted: flag, named: flag }, whole: {} },
  },
} as const satisfies Readonly<Record<string, Verb>>;
