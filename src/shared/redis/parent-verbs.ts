/**
 * The verbs of a parent, called with any address of it, and of its reply channel and its counters, called with that of the agent
 * that an entry or a cost is of: a part of the table in `verbs.ts`, whose head says what holds for all.
 */

import type { Usage } from "../protocol/content.ts";
import { NOTHING_DONE, progressJson, type RunProgress } from "../protocol/reply.ts";
import { flag, int, json, optional, text, texts } from "./codec.ts";
import type { Verb } from "./verb.ts";

/** What one call used and cost. */
export interface Bought {
  usage: Usage;
  cost_usd: number;
}

const bought = json<Bought>((spent) => progressJson({ ...NOTHING_DONE, ...spent }));

/** The verbs of a parent, its channel and its counters. */
export const PARENT_VERBS = {
  /**
   * Books a call that was bought and could not be committed, or that Redis has forgotten: into the parent's counters, once
   * a purchase id, also for an agent that has ended. `same`: it was booked; `committed`: log or transcript have its entry;
   * `unknown`: nothing tells whether it is in the counters.
   */
  charge: {
    keys: ["record", "usage", "log", "transcript"],
    context: ["usage_ttl_ms", "stored_counts"],
    args: {
      purchase_id: text,
      /** What it used and cost, as a progress. */
      bought,
      entry_key: optional(text),
      /** One of those that were to be committed. */
      entry: optional(text),
      /** How one begins that was committed. */
      head: optional(text),
    },
    answers: { charged: {}, same: {}, committed: {}, unknown: {} },
  },
  /**
   * Writes down what the parent's agents inherit. `registered`: it differs from what stood there, and its version is one
   * more; `same`: it stands there already. The agents that live keep what they were spawned with.
   */
  register: {
    keys: ["profile"],
    context: ["version"],
    args: {
      /** The profile as JSON; the same profile gives the same bytes. */
      content: text,
    },
    answers: {
      registered: { profile_version: int, registered_at: int },
      same: { profile_version: int, registered_at: int },
    },
  },
  /** Writes a schedule down; `known`: one that stands there, else `gone`. `full`: the parent has no room for a new one. */
  schedule: {
    keys: ["schedules"],
    context: ["max_schedules"],
    args: { schedule_id: text, known: flag, json: text },
    answers: { stored: {}, full: {}, gone: {} },
  },
  /**
   * Notes how a round of pushing ended: with a `problem`, or as it should. `other`: the webhook that has this `secret` was removed
   * or set anew, and nothing was noted.
   */
  "webhook-report": {
    keys: ["webhook"],
    context: [],
    args: {
      secret: text,
      problem: optional(text),
      failures: optional(int),
      after: optional(text),
      /** The receiver is gone for good. */
      disabled: flag,
    },
    answers: { noted: {}, other: {} },
  },
  /** A process of the parent lives: its agents follow it no earlier than `parent_lease_ms` from now. */
  hold: {
    keys: ["parent_lease"],
    context: ["request_ttl_ms"],
    args: { parent_lease_ms: int },
    answers: { held: { at: int } },
  },
  /**
   * What a sweeper that checks the parent has to do. `held`: check again at `at`; `gone`: ask `overdue` about each of these
   * live agents, and check again; `no_agents`: none lives, forget the parent.
   */
  orphans: {
    keys: ["parent_lease", "live"],
    context: ["look_ms", "request_ttl_ms"],
    args: {},
    answers: { held: { at: int }, gone: { uids: texts, at: int }, no_agents: {} },
  },
  /**
   * Tells a parent that a wish from the intake was refused: the reply of an agent that never was, whose `uid` is the
   * caller's. `request_key` names the wish; `same`: it was told before.
   */
  refuse: {
    keys: ["request", "replies", "webhook"],
    context: ["uid", "tenant", "parent_id", "reply_ttl_ms", "request_ttl_ms", "doorbell", "webhook_doorbell"],
    args: {
      reply_id: text,
      agent_id: text,
      name: text,
      /** How the sender named the wish. */
      wish: optional(text),
      progress: json<RunProgress>(progressJson),
      summary: text,
    },
    answers: { refused: {}, same: {} },
  },
  /** Takes a reply out of the channel. `first` for the reader that did; `token` names this ack, so that it may be repeated. */
  ack: {
    keys: ["replies", "ack", "record", "text", "timeline", "timelines", "history", "transcript", "request"],
    context: ["uid", "request_ttl_ms", "kept_ms", "kept_fields"],
    args: { entry_id: text, token: text },
    answers: { first: {}, already: {} },
  },
} as const satisfies Readonly<Record<string, Verb>>;
