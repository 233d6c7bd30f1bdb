/**
 * Verbs of a parent, its reply channel and its counters: a part of the table in `verbs.ts`, whose header has the common
 * rules. A verb of the parent is called with any of its addresses; one of a channel entry or a cost, with the address of its
 * agent.
 */

import type { Usage } from "../protocol/content.ts";
import { NOTHING_DONE, progressJson, type RunProgress } from "../protocol/reply.ts";
import { flag, int, json, list, optional, text, texts } from "./codec.ts";
import type { Verb } from "./verb.ts";

/** Usage and cost of one call. */
export interface Bought {
  usage: Usage;
  cost_usd: number;
}

const bought = json<Bought>((spent) => progressJson({ ...NOTHING_DONE, ...spent }));

/** Verbs of a parent, its channel and its counters. */
export const PARENT_VERBS = {
  /**
   * Adds a call that was bought but not committed, or that Redis has forgotten, to the parent's counters: once per purchase
   * id, also for an agent that has ended. `same`: it was booked before. `committed`: the log or the transcript has its
   * entry. `unknown`: no data tells whether the counters include it.
   */
  charge: {
    keys: ["record", "usage", "charged", "log", "transcript"],
    context: ["usage_ttl_ms", "reservation_ms"],
    args: {
      /** Usage and cost of the call, in the form of a progress. */
      bought,
      entry_key: optional(text),
      /** An entry that was to be committed with it. */
      entry: optional(text),
      /** The beginning of an entry that was committed. */
      head: optional(text),
    },
    answers: { charged: {}, same: {}, committed: {}, unknown: {} },
  },
  /**
   * Stores the profile that the parent's agents inherit. `registered`: it differs from the stored one, the version goes up
   * by one. `same`: it is stored already. Living agents keep the profile that they were spawned with.
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
  /**
   * Stores a schedule, or without `json` removes it. `seen`: only in place of this text, else `changed`: read it again.
   * `full`: the parent has no room for a new one.
   */
  schedule: {
    keys: ["schedules"],
    context: ["max_schedules"],
    args: { schedule_id: text, seen: optional(text), json: optional(text) },
    answers: { stored: {}, removed: {}, full: {}, changed: {} },
  },
  /**
   * Notes the result of a round of pushes: a `problem`, or none. `other`: the webhook with this `secret` was removed or
   * replaced, and nothing was noted.
   */
  "webhook-report": {
    keys: ["webhook"],
    context: [],
    args: {
      secret: text,
      problem: optional(text),
      failures: optional(int),
      after: optional(text),
      newest: optional(text),
      /** The receiver is gone for good. */
      disabled: flag,
    },
    answers: { noted: {}, other: {} },
  },
  /** Renews the lease of a parent: its agents do not follow it for `parent_lease_ms` from now. */
  hold: {
    keys: ["parent_lease"],
    context: ["request_ttl_ms"],
    args: { parent_lease_ms: int },
    answers: { held: { at: int } },
  },
  /**
   * Tells a sweeper what to do about the parent. `held`: check again at `at`. `gone`: ask `overdue` about each of these live
   * agents, and check again. `no_agents`: none lives, forget the parent.
   */
  orphans: {
    keys: ["parent_lease", "live"],
    context: ["check_ms", "request_ttl_ms"],
    args: {},
    answers: { held: { at: int }, gone: { uids: texts, at: int }, no_agents: {} },
  },
  /**
   * Tells a parent that an intake request was refused: writes the reply of an agent that was never made; the caller chooses
   * its `uid`. `same`: the parent was told before.
   */
  refuse: {
    keys: ["request", "replies", "webhook"],
    context: ["uid", "tenant", "parent_id", "reply_ttl_ms", "request_ttl_ms", "doorbell", "webhook_doorbell"],
    args: {
      reply_id: text,
      agent_id: text,
      name: text,
      /** The intake request's own `request_key`; the reply names it in `message_ids`. */
      message_id: optional(text),
      progress: json<RunProgress>(progressJson),
      summary: text,
    },
    answers: { refused: {}, same: {} },
  },
  /**
   * Copies a page of the transcript of `resumes` to the log of an agent that is about to be spawned to continue it. `count`:
   * number of the `entries`, in their order, that are copied; send the others again. `spawned`: the agent is there already.
   */
  "resume-page": {
    keys: ["record", "log", "resumed"],
    context: [],
    args: {},
    lists: { entries: list("key") },
    answers: { copied: { count: int }, no_transcript: {}, spawned: {} },
  },
  /** Removes a reply from the channel. `first`: this ack removed it. `token` identifies the ack, so that it can be repeated. */
  ack: {
    keys: ["replies", "ack", "record", "text", "timeline", "timelines", "history", "transcript", "request"],
    context: ["uid", "request_ttl_ms", "kept_ms", "kept_timelines", "kept_fields"],
    args: { entry_id: text, token: text },
    answers: { first: {}, already: {} },
  },
} as const satisfies Readonly<Record<string, Verb>>;
