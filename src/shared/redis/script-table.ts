/**
 * The Lua scripts as a table: the names of their keys, arguments and answers, in order. A test holds it against the
 * headers of `lua/*.lua`.
 */
import { OPERATOR_SCRIPTS } from "./operator-scripts.ts";

/** What a script is handed and what it answers. */
export interface Shape {
  /** Key names, in the order of KEYS. */
  keys: readonly string[];
  /** Argument names, in the order of ARGV. */
  args: readonly string[];
  /** First word of the answer → names of the values behind it. Values beyond them arrive as `rest`. */
  answers: Readonly<Record<string, readonly string[]>>;
}

/** Every script of the protocol. */
export const SCRIPTS = {
  spawn: {
    keys: ["record", "request", "registry", "live", "life"],
    args: [
      "uid",
      "stem",
      "name",
      "spec",
      "tenant",
      "parent_id",
      "digest",
      "request_ttl_ms",
      "max_live",
      "idle_ms",
      "registry_ttl_ms",
      "version",
    ],
    answers: {
      spawned: ["agent_id", "created_at"],
      same: ["uid", "agent_id", "created_at"],
      conflict: ["agent_id"],
      quota: ["live"],
    },
  },
  send: {
    keys: ["record", "inbox", "life", "message", "registry"],
    args: [
      "payload",
      "digest",
      "message_ttl_ms",
      "max_messages",
      "max_bytes",
      "look_ms",
      "max_age_ms",
      "registry_ttl_ms",
    ],
    answers: {
      queued: ["run", "wake"],
      delivered: ["run", "agent_status"],
      same: ["run", "wake", "agent_status"],
      conflict: [],
      ended: ["reason"],
      inbox_full: ["messages"],
      unknown: [],
    },
  },
  claim: {
    keys: ["record"],
    args: ["claim_id", "worker", "lease_ms", "version", "alone"],
    answers: {
      claimed: ["epoch", "running_ms", "retries"],
      lost: ["epoch", "running_ms", "retries"],
      alone: ["deaths", "wake"],
      held: ["wait_ms"],
      nothing: ["agent_status"],
      newer: ["version", "wake"],
      unknown: [],
    },
  },
  renew: {
    keys: ["record", "inbox"],
    args: ["epoch", "lease_ms", "running_ms"],
    answers: { ok: ["inbox", "finish"], stale: [] },
  },
  append: {
    keys: ["record", "log", "inbox", "steps", "replies", "text"],
    args: [
      "epoch",
      "known",
      "running_ms",
      "consume_to",
      "consume_last",
      "progress",
      "text_changed",
      "whole_text",
      "step",
      "interim_id",
      "interim",
      "doorbell",
      "reply_ttl_ms",
    ],
    answers: { appended: ["inbox", "finish"], same: ["inbox", "finish"], conflict: [], stale: [] },
  },
  release: {
    keys: ["record"],
    args: ["epoch", "delay_ms", "look_ms", "running_ms", "retries"],
    answers: { released: ["wake"], stale: [] },
  },
  ask: {
    keys: ["record", "log", "replies", "steps"],
    args: ["epoch", "known", "answer_ms", "running_ms", "progress", "step", "doorbell", "reply_ttl_ms"],
    answers: { asked: ["deadline"], finishing: [], stale: [] },
  },
  answer: {
    keys: ["record", "log"],
    args: ["authority", "question_id", "entry", "look_ms"],
    answers: {
      queued: ["run", "wake", "deadline"],
      waiting: ["open"],
      same: ["run", "wake", "agent_status"],
      answered: [],
      not_due: ["deadline"],
      unknown_question: [],
      ended: ["reason"],
      unknown: [],
    },
  },
  settle: {
    keys: ["record", "log", "inbox", "life", "live", "replies", "text", "steps", "registry", "usage"],
    args: [
      "authority",
      "epoch",
      "known",
      "uid",
      "target",
      "ended_reason",
      "status",
      "stop_reason",
      "natural",
      "body",
      "idle_ms",
      "look_ms",
      "reply_ttl_ms",
      "registry_ttl_ms",
      "usage_ttl_ms",
      "doorbell",
      "hints",
    ],
    answers: {
      settled: ["reply_id", "agent_status", "run", "wake"],
      same: ["ended_reason", "agent_status", "run", "wake"],
      more: ["inbox"],
      not_due: ["deadline"],
      stale: [],
      unknown: [],
    },
  },
  finish: {
    keys: ["record"],
    args: ["look_ms"],
    answers: { finishing: ["run", "wake"], idle: [], ended: ["reason"], unknown: [] },
  },
  overdue: {
    keys: ["record", "life"],
    args: ["version", "look_ms"],
    answers: {
      not_due: ["deadline"],
      idle_over: [],
      max_age_over: [],
      answer_due: [],
      wake_due: ["wake", "looks", "agent_id"],
      ended: [],
      unknown: [],
    },
  },
  rewake: {
    keys: ["record"],
    args: ["expected_wake", "job_alive", "look_ms", "longest_look_ms"],
    answers: { wake: ["wake", "deadline"], wait: ["deadline"], not_due: [] },
  },
  ack: {
    keys: ["replies", "ack", "record", "text", "steps"],
    args: ["entry_id", "token", "ack_ttl_ms", "kept_ms"],
    answers: { first: [], already: [] },
  },
  "deadline-touch": {
    keys: ["deadlines", "touched"],
    args: ["member", "in_ms", "grace_ms"],
    answers: { touched: ["at"] },
  },
  "deadline-due": { keys: ["deadlines", "touched"], args: ["limit", "hidden_ms"], answers: { due: [] } },
  "deadline-move": {
    keys: ["deadlines", "touched"],
    args: ["member", "seen_score", "seen_touch", "at"],
    answers: { moved: [], touched: [] },
  },
  "gate-enter": {
    keys: ["paused", "gate", "holders", "waiting"],
    args: ["run_id", "under_way", "place_ms", "ask_ms", "no_place_ms", "spacing_ms", "quiet_ms"],
    answers: { open: ["at", "place"], wait: ["wait_ms", "reason"], paused: [] },
  },
  "gate-leave": {
    keys: ["gate", "holders", "waiting", "gates"],
    args: [
      "name",
      "run_id",
      "entered_at",
      "outcome",
      "reason",
      "retry_after_ms",
      "jitter",
      "backoff_ms",
      "longest_backoff_ms",
      "breaker_ms",
      "longest_breaker_ms",
      "quiet_ms",
      "names_ttl_ms",
    ],
    answers: { left: [], first: [], known: [] },
  },
  ...OPERATOR_SCRIPTS,
} as const satisfies Record<string, Shape>;

/** The name of a script. */
export type ScriptName = keyof typeof SCRIPTS;
/** A key name for each of the keys of a script. */
export type KeysOf<S extends Shape> = Record<S["keys"][number], string>;
/** A value for each of its arguments. */
export type ArgsOf<S extends Shape> = Record<S["args"][number], string | number>;
/** What a script answers: its word as `status`, the named values as text, further ones in `rest`. */
export type Answer<N extends ScriptName> = {
  [W in keyof (typeof SCRIPTS)[N]["answers"] & string]: { status: W; rest: string[] } & {
    [F in Extract<(typeof SCRIPTS)[N]["answers"][W], readonly string[]>[number]]: string;
  };
}[keyof (typeof SCRIPTS)[N]["answers"] & string];
