/**
 * Verbs of an installation, called without an agent's address: deadline set, fair order, workers, locks, webhook slots,
 * provider limiter, budgets. A part of the table in `verbs.ts`, whose header has the common rules.
 */
import { flag, int, list, optional, real, rows, text, texts, word } from "./codec.ts";
import type { Verb } from "./verb.ts";

/** Verbs of an installation. */
export const INSTALLATION_VERBS = {
  /** Makes a sweeper check the agent in `in_ms`, or earlier if its deadline is earlier. Sent before the verb that needs it. */
  "deadline-hint": {
    keys: ["deadlines", "hint_grace", "parents", "tenant_parents"],
    context: ["grace_ms", "usage_ttl_ms", "max_age_ms"],
    args: {
      member: text,
      /** The agent's parent. */
      parent: optional(text),
      /** The parent itself makes the call, so it is active now. */
      by_parent: flag,
      in_ms: int,
    },
    answers: { hinted: { at: int } },
  },
  /** Returns the agents that are due; they are due again after `hidden_ms` unless moved or removed. */
  "deadline-due": {
    keys: ["deadlines", "hint_grace"],
    context: [],
    args: { limit: int, hidden_ms: int },
    answers: { due: { /** Their new score. */ score: int, members: rows({ member: text, grace: text }) } },
  },
  /** Sets the time of each member's next check, or none (`at` empty), unless a hint came since the caller read the member. */
  "deadline-move": {
    keys: ["deadlines", "hint_grace"],
    context: [],
    args: {},
    lists: { moves: list("member", "seen_score", "seen_grace", "at") },
    answers: { moved: {} },
  },
  /** Moves a new wake to its place in line: by tenant, then parent. `gone`: a worker has it, or it has a place already. */
  "fair-rank": {
    keys: ["ranked_wakes", "wake_job", "fair_period", "fair_tenant"],
    context: [],
    args: { job_id: text, fair_parent: text },
    answers: { ranked: { position: int }, gone: {} },
  },
  /** Notes that an operator paused the installation, unless a pause is in force; works also when memory is full. */
  pause: {
    keys: ["paused"],
    context: [],
    args: { note: text },
    answers: { noted: {} },
  },
  /** Renews the announcement of a worker, also while memory is full. */
  announce: {
    keys: ["worker"],
    context: [],
    args: {
      /** {@link WorkerAnnouncement} as JSON. */
      announcement: text,
      /** The same for a worker whose announcement before has expired. */
      returning: text,
      ms: int,
    },
    answers: { announced: {} },
  },
  /** Stores an API key as revoked, also while memory is full. */
  "key-revoke": {
    keys: ["api_keys"],
    context: [],
    args: { key_id: text, /** The key as JSON, with `revoked_at`. */ revoked: text },
    answers: { revoked: {} },
  },
  /** Takes a lock for `ms`, or extends it; `taken`: another token holds it. */
  "lock-hold": {
    keys: ["lock"],
    context: [],
    args: { token: text, ms: int },
    answers: { held: {}, taken: {} },
  },
  /** Releases a lock if `token` holds it. */
  "lock-release": {
    keys: ["lock"],
    context: [],
    args: { token: text },
    answers: { released: {} },
  },
  /**
   * Takes the slot to push for a parent, for `ms`. `later`: another process has it and will check once more, or the back-off
   * after a receiver's silence is not over. `retry_in_ms`: time until refused entries are retried; until then the slot is
   * for newer ones.
   */
  "webhook-begin": {
    keys: ["webhooks_due", "webhook_holders"],
    context: [],
    args: { member: text, token: text, ms: int },
    answers: { begun: { retry_in_ms: optional(int) }, later: {} },
  },
  /**
   * Extends the slots of a process for `ms`; `lost` are those that it no longer has. Then takes up to `limit` slots that are
   * due. `resting`: those of them whose refused entries are not tried before `retry_in_ms`. `next_ms`: time until the next one
   * is due.
   */
  "webhook-due": {
    keys: ["webhooks_due", "webhook_holders"],
    context: [],
    args: { token: text, ms: int, limit: int },
    lists: { kept: list("member") },
    answers: {
      due: {
        lost: texts,
        taken: texts,
        resting: rows({ member: text, retry_in_ms: int }),
        next_ms: optional(int),
      },
    },
  },
  /**
   * Releases a slot if `token` still has it: for good, or until a retry in `in_ms`. `refused`: the receiver lives, and newer
   * entries do not wait for the retry. `again`: another process heard of a reply, so the next slot is due at once.
   */
  "webhook-end": {
    keys: ["webhooks_due", "webhook_holders"],
    context: [],
    args: { member: text, token: text, in_ms: optional(int), refused: flag },
    answers: { ended: {}, again: {}, lost: {} },
  },
  /** Tells whether this run may call its provider now, and if not, when it must ask again. */
  "limiter-acquire": {
    keys: ["paused", "limiter", "holders", "waiting", "resuming"],
    context: ["late_ms"],
    args: {
      run_id: text,
      /** It has made a call: it goes ahead of the runs that have not. */
      resumes: flag,
      /** The call has begun and keeps its slot. */
      under_way: flag,
      slot_ms: int,
      /** Longest wait at a closed limiter; wait when all slots are taken; interval between two appointments. */
      ask_ms: int,
      no_slot_ms: int,
      spacing_ms: int,
      quiet_ms: int,
    },
    answers: { open: { at: int, slot: flag }, wait: { wait_ms: int, reason: text }, paused: {} },
  },
  /** Reports the outcome of a call, which slows, closes or opens the limiter for every worker. */
  "limiter-release": {
    keys: ["limiter", "holders", "waiting", "resuming", "limiters"],
    context: [],
    args: {
      name: text,
      run_id: text,
      entered_at: int,
      outcome: word("ok", "limited", "denied", "neutral"),
      reason: text,
      retry_after_ms: optional(int),
      /** In [0, 1). */
      jitter: real,
      backoff_ms: int,
      longest_backoff_ms: int,
      breaker_ms: int,
      longest_breaker_ms: int,
      quiet_ms: int,
      names_ttl_ms: int,
    },
    answers: { left: {}, first: {}, known: {} },
  },
  /** Calls the runs that are next in the lines before a slowed limiter, at most `most`: each holds a slot for a moment. */
  "limiter-next": {
    keys: ["limiter", "holders", "waiting", "resuming"],
    context: ["late_ms"],
    args: { slot_ms: int, most: int },
    answers: { called: { runs: texts } },
  },
  /** Reserves the estimated cost of a call in the budget `name`. `used_permille`: how much of it is used then. */
  "budget-reserve": {
    keys: ["budget", "reservation"],
    context: ["reply_ttl_ms", "registry_ttl_ms", "reservation_ms"],
    args: {
      /** It binds one agent, so it is kept only as long as that may live. */
      of_agent: flag,
      tokens: int,
      micro_usd: int,
      max_tokens: optional(int),
      max_micro_usd: optional(int),
      /** Absent: the budget never refills. */
      window_ms: optional(int),
      /** Granted in any case: this is the final call of a run, which reports what it has. */
      forced: flag,
    },
    answers: { granted: { used_permille: int }, refused: { over: word("max_total_tokens", "max_cost") } },
  },
  /** Replaces the reservation by the real usage of the call. */
  "budget-settle": {
    keys: ["budget", "reservation"],
    context: [],
    args: { tokens: int, micro_usd: int },
    answers: { settled: {}, same: {} },
  },
  /** Returns the tokens and the money spent from the budget in its window. */
  "budget-usage": {
    keys: ["budget"],
    context: [],
    args: { window_ms: optional(int) },
    answers: { used: { tokens: int, micro_usd: int } },
  },
} as const satisfies Readonly<Record<string, Verb>>;
