/**
 * The verbs of a parent's reply channel, called with the address of the agent that an entry is about: a part of the table in
 * `verbs.ts`, whose head says what holds for all.
 */
import { progressJson, type RunProgress } from "../protocol/reply.ts";
import { json, optional, text } from "./codec.ts";
import type { Verb } from "./verb.ts";

/** The verbs of a reply channel. */
export const CHANNEL_VERBS = {
  /**
   * Tells a parent that a wish from the intake was refused: the reply of an agent that never was, whose `uid` is the
   * caller's. `request_key` names the wish; `same`: it was told before.
   */
  refuse: {
    keys: ["request", "replies"],
    context: ["uid", "parent_id", "reply_ttl_ms", "request_ttl_ms", "doorbell"],
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
    context: ["uid", "request_ttl_ms", "kept_ms"],
    args: { entry_id: text, token: text },
    answers: { first: {}, already: {} },
  },
} as const satisfies Readonly<Record<string, Verb>>;
