/**
 * The verbs of an installation, called without an address: the deadline set and the provider limiter. The other half of the
 * table in `verbs.ts`, whose head says what holds for all.
 */
import { flag, int, list, optional, real, rows, text, texts, word } from "./codec.ts";
import type { Verb } from "./verb.ts";

/** The verbs of an installation. */
export const INSTALLATION_VERBS = {
  /** A sweeper must check the agent in `in_ms`, or earlier if that stands already. Comes before the verb that needs it. */
  "deadline-hint": {
    keys: ["deadlines", "hint_grace", "parents", "tenant_parents"],
    context: ["grace_ms", "usage_ttl_ms"],
    args: { member: text, /** That was active now. */ parent: optional(text), in_ms: int },
    answers: { hinted: { at: int } },
  },
  /** The agents that are due; they come due again after `hidden_ms` unless moved or removed. */
  "deadline-due": {
    keys: ["deadlines", "hint_grace"],
    context: [],
    args: { limit: int, hidden_ms: int },
    answers: { due: { /** All have it now. */ score: int, members: rows({ member: text, grace: text }) } },
  },
  /** The time of the next check of each member, or none (`at` empty), unless it was hinted at since it was seen. */
  "deadline-move": {
    keys: ["deadlines", "hint_grace"],
    context: [],
    args: {},
    lists: { moves: list("member", "seen_score", "seen_grace", "at") },
    answers: { moved: {} },
  },
  /** Gives a wake that was just added its place in the line, by tenant, then parent. `gone`: a worker has it, or it has one. */
  "fair-rank": {
    keys: ["ranked_wakes", "wake_job", "fair_period", "fair_tenant"],
    context: [],
    args: { job_id: text, fair_parent: text },
    answers: { ranked: { place: int }, gone: {} },
  },
  /** Writes down that an operator paused the installation, unless that stands already; also while memory is full. */
  pause: {
    keys: ["paused"],
    context: [],
    args: { note: text },
    answers: { noted: {} },
  },
  /** Stores an API key as revoked, also while memory is full. */
  "key-revoke": {
    keys: ["api_keys"],
    context: [],
    args: { key_id: text, /** The key as JSON, with `revoked_at`. */ revoked: text },
    answers: { revoked: {} },
  },
  /** Takes a lock for `ms`, or keeps it; `taken`: another token holds it. */
  "lock-hold": {
    keys: ["lock"],
    context: [],
    args: { token: text, ms: int },
    answers: { held: {}, taken: {} },
  },
  /** Gives a lock up, if `token` holds it. */
  "lock-release": {
    keys: ["lock"],
    context: [],
    args: { token: text },
    answers: { released: {} },
  },
  /**
   * Takes the slot to push for a parent, for `ms`; `later`: another process has it and will look once more, or a receiver that
   * did not answer has its pause. `retry_in_ms`: until what the receiver refused is tried again; this slot is for what has come since.
   */
  "webhook-begin": {
    keys: ["webhooks_due", "webhook_holders"],
    context: [],
    args: { member: text, token: text, ms: int },
    answers: { begun: { retry_in_ms: optional(int) }, later: {} },
  },
  /**
   * Keeps the slots of a process for `ms`; `lost` are those that passed to another, or were taken back. Then takes up to `limit`
   * slots whose time has come. `next_ms`: until the time of the next one.
   */
  "webhook-due": {
    keys: ["webhooks_due", "webhook_holders"],
    context: [],
    args: { token: text, ms: int, limit: int },
    lists: { kept: list("member") },
    answers: { due: { lost: texts, taken: texts, next_ms: optional(int) } },
  },
  /**
   * Gives a slot up, if `token` still has it: for good, or until a retry in `in_ms`. `refused`: the receiver lives, and what comes
   * does not wait for the retry. `again`: the next slot is due at once, for another process heard of a reply.
   */
  "webhook-end": {
    keys: ["webhooks_due", "webhook_holders"],
    context: [],
    args: { member: text, token: text, in_ms: optional(int), refused: flag },
    answers: { ended: {}, again: {}, lost: {} },
  },
  /** May this run call its provider now, and if not, when does it ask again? */
  "limiter-acquire": {
    keys: ["paused", "limiter", "holders", "waiting"],
    context: [],
    args: {
      run_id: text,
      /** The call has begun and keeps its slot. */
      under_way: flag,
      slot_ms: int,
      /** How long a closed limiter may keep a run from asking; one whose slots are taken; between two appointments. */
      ask_ms: int,
      no_slot_ms: int,
      spacing_ms: int,
      quiet_ms: int,
    },
    answers: { open: { at: int, slot: flag }, wait: { wait_ms: int, reason: text }, paused: {} },
  },
  /** A call is over; what it met slows, closes or opens the limiter for every worker. */
  "limiter-release": {
    keys: ["limiter", "holders", "waiting", "limiters"],
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
  /** Takes what a call may cost out of the budget `name`. `used_permille`: how much of it is used then. */
  "budget-reserve": {
    keys: ["budget", "reservation"],
    context: ["registry_ttl_ms", "reservation_ms"],
    args: {
      tokens: int,
      micro_usd: int,
      max_tokens: optional(int),
      max_micro_usd: optional(int),
      /** Absent: the budget never refills. */
      window_ms: optional(int),
      /** Granted in any case: the final call of a run, which reports what it has. */
      forced: flag,
    },
    answers: { granted: { used_permille: int }, refused: { over: word("max_total_tokens", "max_cost") } },
  },
  /** What the call took after all. */
  "budget-settle": {
    keys: ["budget", "reservation"],
    context: [],
    args: { tokens: int, micro_usd: int },
    answers: { settled: {}, same: {} },
  },
  /** What has been spent of the budget in its window. */
  "budget-usage": {
    keys: ["budget"],
    context: [],
    args: { window_ms: optional(int) },
    answers: { used: { tokens: int, micro_usd: int } },
  },
} as const satisfies Readonly<Record<string, Verb>>;
