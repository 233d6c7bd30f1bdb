/**
 * The verbs with which a sweeper looks after an agent: a part of the table in `verbs.ts`, whose head says what holds for all.
 */
import { flag, int, text } from "./codec.ts";
import type { Verb } from "./verb.ts";

/** The verbs of a sweeper. */
export const SWEEPER_VERBS = {
  /**
   * What a sweeper has to do about this agent; changes nothing. `parent_gone`: settle it; `unwatched`: its parent is gone and
   * its run is to hand back.
   */
  overdue: {
    keys: ["record", "life", "parent_lease"],
    context: ["version", "look_ms", "tools_ms"],
    args: {},
    answers: {
      not_due: { deadline: int },
      idle_over: {},
      max_age_over: {},
      answer_due: {},
      tools_missing: {},
      parent_gone: {},
      unwatched: { agent_id: text },
      wake_due: { wake: int, checks: int, agent_id: text },
      ended: {},
      unknown: {},
    },
  },
  /** After `overdue` answered `wake_due`. `wait`: the job waits to be taken; `wake`: add the job of the new one. */
  rewake: {
    keys: ["record"],
    context: ["look_ms", "longest_look_ms"],
    args: { expected_wake: int, job_alive: flag },
    answers: { wake: { wake: int, deadline: int }, wait: { deadline: int }, not_due: {} },
  },
} as const satisfies Readonly<Record<string, Verb>>;
