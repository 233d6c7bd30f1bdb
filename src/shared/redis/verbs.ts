/**
 * The table of verbs: for each script its keys, context, arguments and answers, each value with a codec. The Lua locals, the
 * typed calls of {@link scripts.ts} and the tables of `docs/protocol.md` follow from it. The header of each script names the
 * race that it closes. Every verb may run twice: the second run changes nothing and gives a compatible answer.
 *
 * Rules for several verbs:
 * - `epoch` is the fence: a write with the epoch of another holder answers `stale` and changes nothing.
 * - `known` is the number of log entries that the holder knows (0: none). A log with fewer has lost entries in a failover:
 *   the answer is `stale`, and the holder hands the run back.
 * - `running_ms` is the running time of the run so far.
 * - `events` are finished JSON objects of {@link ProgressEvent} without `v`, `agent_id`, `name` and `run`, separated by
 *   commas; absent: none. They become one line of the agent's timeline and one number in the parent's history.
 * - `inbox` is the number of unread messages, `finish` whether the parent wants an end, `watched` whether a subscriber
 *   listens to the events (then text deltas are worth publishing).
 * - `wake` is the number of the wake whose job the caller adds; adding one twice is harmless.
 */
import { AgentStatus, EndedReason } from "../protocol/agent.ts";
import { progressJson, ReplyStatus, type RunProgress, StopReason } from "../protocol/reply.ts";
import { flag, hash, int, json, list, names, optional, text, texts, word } from "./codec.ts";
import { INSTALLATION_VERBS } from "./installation-verbs.ts";
import { PARENT_VERBS } from "./parent-verbs.ts";
import { SWEEPER_VERBS } from "./sweeper-verbs.ts";
import type { Verb } from "./verb.ts";

const agentStatus = word(...AgentStatus.options);
const endedReason = word(...EndedReason.options);
const progress = json<RunProgress>(progressJson);
const current = { agent_status: agentStatus, run: int, wake: int };
const holderStatus = { inbox: int, finish: flag, watched: flag };

/** The last text of the run. */
const TEXT = {
  /** The text, cut to its limit; absent: unchanged. Not needed for the text of the message that the progress names as `said`. */
  summary: optional(text),
  /** The uncut text, if `summary` was cut. Read only with a summary. */
  whole_text: optional(text),
  /** The summary in the record is no longer the last text: delete it. */
  forgets_summary: optional(flag),
} as const;

/** Arguments of every write to the log: the entries, the messages that they consume, and the state of the run. */
const COMMIT = {
  epoch: int,
  known: int,
  running_ms: int,
  /** Absolute inbox cursor after this commit; id of the message before it (another id there is `stale`); all consumed ids. */
  consume_to: optional(int),
  consume_last: optional(text),
  consume_ids: optional(names),
  /** Names of the attachments of these messages, to be deleted. */
  consume_attached: optional(names),
  /** Counters of the run, as totals; absent: unchanged. */
  progress: optional(progress),
  /** {@link RecordFields} `log_bytes`, including these entries; absent: unchanged. */
  log_bytes: optional(int),
  ...TEXT,
  /** {@link RecordFields} `begun`, if another purchase is about to begin. */
  begun: optional(text),
  events: optional(text),
} as const;

const COMMIT_KEYS = [
  "record",
  "log",
  "inbox",
  "attachments",
  "run_text",
  "replies",
  "webhook",
  "timeline",
  "history",
  "watching",
] as const;
const COMMIT_CONTEXT = ["tenant", "reply_ttl_ms", "doorbell", "webhook_doorbell", "events_channel"] as const;
const INBOX_BOUNDS = ["max_messages", "max_bytes", "max_attached", "max_log_bytes"] as const;
/** Log entries: key and JSON. Each is written once. */
const ENTRIES = list("key", "value");

/** Verbs of an agent, called with its address. */
export const AGENT_VERBS = {
  /**
   * Registers an agent. With `message` the same step queues its first run (run 1, wake 1); without one the agent is idle.
   * `same`: this request key spawned `uid` before, nothing changed; add the job of its wake again, because the earlier call
   * may not have done so, and a second job does no harm. `conflict`: the key was used with other arguments, or the uid is in
   * use. `no_transcript`: the transcript of `resumes` is gone. `other_profile`: spawn again under the profile of the answer.
   * `quota`: settle the agents in `overdue`, whose idle time is over, and spawn again.
   */
  spawn: {
    keys: [
      "record",
      "request",
      "registry",
      "live",
      "life",
      "inbox",
      "log",
      "attachments",
      "profile",
      "resumed",
    ],
    context: [
      "uid",
      "tenant",
      "parent_id",
      "request_ttl_ms",
      "reply_ttl_ms",
      "registry_ttl_ms",
      "max_live",
      "version",
      "check_ms",
      "max_age_ms",
    ],
    args: {
      stem: text,
      name: text,
      /** {@link AgentSpec} as JSON. */
      spec: text,
      /** Digest of the caller's arguments. */
      digest: text,
      idle_ms: int,
      /** Tools of its allowlist that no worker has built in. A worker that lacks one of them does not claim the agent. */
      needs_tools: optional(names),
      /** The first {@link InboxMessage}, as JSON. */
      message: optional(text),
      /** {@link Attached} of this spawn, or of its first message, as JSON, and its name in the attachments until it is read. */
      attached: optional(text),
      attached_to: optional(text),
      /** How the agent reacts when the parent's lease has lapsed; absent: not at all. */
      on_parent_gone: optional(word("finish", "destroy")),
      /**
       * The caller named the request key: an ack does not delete it, and with `message` it lasts a day longer than the task's
       * reply can wait for an ack; after the ack at most as long as the record.
       */
      promised: optional(flag),
      /** Version of the registered profile that `spec` was made under; absent: no profile. */
      profile_version: optional(int),
      /** How long its transcript is kept after the ack, in ms; absent: not kept. */
      transcript_ms: optional(int),
      /** Number of its first run if it continues the transcript of `resumes`; absent: 1. */
      first_run: optional(int),
      /** Length of that transcript, as the ended agent's record knows it. */
      log_bytes: optional(int),
    },
    answers: {
      spawned: { agent_id: text, created_at: int },
      same: { uid: text, agent_id: text, created_at: int },
      conflict: { agent_id: text },
      other_profile: { profile_version: int, content: optional(text) },
      no_transcript: {},
      quota: { overdue: texts },
    },
  },
  /**
   * Puts a message into the inbox. `queued`: a run begins, add the job. `delivered`: a queued or running run will read it.
   * `same`: it was accepted before, with this receipt for this run (if the status is `queued`, add the job again). `log_full`:
   * with this message and the unread ones the log would have no room for a turn.
   */
  send: {
    keys: ["record", "inbox", "attachments", "life", "message", "registry"],
    context: [...INBOX_BOUNDS, "request_ttl_ms", "check_ms", "max_age_ms", "registry_ttl_ms"],
    args: {
      /** {@link InboxMessage} as JSON. */
      payload: text,
      digest: text,
      /** {@link Attached} of this message as JSON, and its name in the attachments until it is read. */
      attached: optional(text),
      attached_to: optional(text),
    },
    answers: {
      queued: { run: int, wake: int },
      delivered: { run: int, agent_status: agentStatus },
      same: { receipt: word("queued", "delivered"), run: int, wake: int, agent_status: agentStatus },
      conflict: {},
      ended: { reason: endedReason },
      inbox_full: { messages: int },
      log_full: { log_bytes: int },
      unknown: {},
    },
  },
  /**
   * Takes a queued agent, or a running one whose lease has expired; the epoch fences every earlier holder. The answer has
   * everything that a run needs but a long log. `crashed`: the run crashed in isolation; settle it
   * `worker_lost` and read only its record. `suspect`: two workers in a row crashed with it, or one in a tool if the caller
   * can isolate runs; claim it with `isolation`.
   * `missing_tools`: this worker lacks `tools`. `newer`: a newer version wrote the record. Leave both to another worker.
   * `held`: another worker holds the agent; or it is queued, with this `wake`, and not yet due.
   */
  claim: {
    keys: ["record", "log", "inbox", "timeline", "history", "watching"],
    context: ["lease_ms", "version", "events_channel", "event_ttl_ms"],
    args: {
      claim_id: text,
      worker: text,
      /**
       * Runs that may crash with this one. `group`: other suspects of the caller's process. `own_process`: none, in a
       * process of suspects. `own_worker`: none, in a worker that begins no other run before this one advances. Absent: a
       * worker's runs.
       */
      isolation: optional(word("group", "own_process", "own_worker")),
      can_isolate: optional(flag), // A process of suspects has room, so a run whose last holder died in a tool counts as a suspect.
      /** Names of the caller's custom tools. */
      offered_tools: optional(names),
    },
    answers: {
      claimed: {
        epoch: int,
        run: int,
        running_ms: int,
        attempts: int,
        breaks: int,
        record: hash,
        /** Absent with more than 1,000 entries or 1 MiB: its holder, the only one who writes to it, reads it in pages. */
        log: optional(hash),
        messages: texts,
        watched: flag,
        /** Purchase that an earlier holder began and neither committed nor gave up; its name without the uid. */
        lost_call: optional(text),
        /** The last holder, if its lease had expired; absent in the answer to a claim that is sent again. */
        lost_worker: optional(text),
      },
      crashed: { epoch: int, run: int, running_ms: int, attempts: int, breaks: int, record: hash },
      suspect: { crashes: int, isolated_crashes: int, wake: int },
      missing_tools: { tools: names, wake: int },
      held: { wait_ms: int, wake: optional(int), due_at: optional(int) },
      nothing: { agent_status: agentStatus },
      /** Its unanswered message is older than the agent's maximum age: a sweeper ends it. */
      too_old: {},
      newer: { version: int, wake: int },
      unknown: {},
    },
  },
  /** Extends the lease, which counts from the moment the call was sent. */
  renew: {
    keys: ["record", "inbox", "watching"],
    context: ["lease_ms"],
    args: { epoch: int, running_ms: int },
    answers: { ok: holderStatus, stale: {} },
  },
  /**
   * Commits log entries and the data that belongs to them, all or nothing. `same`: the log already has all of them.
   * `conflict`: it has other entries; read the log and continue from it. `stale` also if the inbox has another message
   * before the cursor.
   */
  append: {
    keys: COMMIT_KEYS,
    context: COMMIT_CONTEXT,
    args: {
      ...COMMIT,
      /** The run has advanced: its earlier attempts and crashes no longer count. */
      advances: optional(flag),
      /** An interim message for the parent: its id and text. */
      interim_id: optional(text),
      interim: optional(text),
      /** The purchase that the record names in `begun` will not begin. */
      no_purchase: optional(flag),
    },
    lists: { entries: ENTRIES },
    answers: { appended: holderStatus, same: holderStatus, conflict: {}, stale: {} },
  },
  /** The holder hands the agent back; no claim before `delay_ms` from now. Add the job with that delay. */
  release: {
    keys: ["record", "timeline", "history", "watching"],
    context: ["check_ms", "events_channel"],
    args: {
      epoch: int,
      delay_ms: int,
      /** `breaks`: how often in a row the run has broken off in its worker. Each absent, or with `crashed`: unchanged. */
      running_ms: optional(int),
      attempts: optional(int),
      breaks: optional(int),
      /** The run's provider fails or limits it: {@link ProviderWait} as JSON. */
      provider_wait: optional(text),
      /** The holder's process has crashed; its worker, which saw the crash, makes this call. */
      crashed: optional(flag),
      /** The lost call that the claim reported and the holder could not charge: the next claim reports it again. */
      lost_call: optional(text),
      events: optional(text),
    },
    answers: { released: { wake: int }, stale: {} },
  },
  /**
   * A `release` to `waiting`: in one step it writes the marks of the calls, one channel entry per question, the new status
   * and the progress of the run. `finishing`: the parent wants an end, nothing was asked.
   */
  ask: {
    keys: COMMIT_KEYS,
    context: COMMIT_CONTEXT,
    args: {
      epoch: int,
      known: int,
      running_ms: int,
      /** How long the questions wait for an answer. */
      answer_ms: int,
      progress: optional(progress),
      /** {@link RecordFields} `log_bytes`, including the marks. */
      log_bytes: optional(int),
      ...TEXT,
      events: optional(text),
    },
    /** `started`: the start mark of the tool call, as JSON. `default_answer`: `""` for none. */
    lists: { questions: list("question_id", "started", "text", "default_answer") },
    answers: { asked: { deadline: int }, finishing: {}, stale: {} },
  },
  /**
   * Writes the answer to an open question into the log, once. `waiting`: others are open. `queued`: it was the last, add the
   * job. `same`: this answer was already written (if the status is `queued`, add the job again), also if the agent has
   * ended since and its transcript is kept. `answered`: another one was. The sweeper writes the default; `not_due` before the
   * deadline. `log_full`: the log has no room for the parent's answer.
   */
  answer: {
    keys: ["record", "log", "transcript"],
    context: ["check_ms", "max_log_bytes", "entry_overhead"],
    args: {
      authority: word("parent", "sweeper"),
      question_id: text,
      /** {@link ToolResultEntry} as JSON. */ entry: text,
    },
    answers: {
      queued: { run: int, wake: int, deadline: int },
      waiting: { open: int },
      same: { run: int, wake: int, agent_status: agentStatus },
      answered: {},
      log_full: { log_bytes: int },
      not_due: { deadline: int },
      unknown_question: {},
      ended: { reason: endedReason },
      unknown: {},
    },
  },
  /**
   * The only way out: ends a run (by its worker, fenced) or an agent (by parent or sweeper, with authority). The first
   * caller wins; `same` tells how, and with `by_other` that it was another one, as long as no ack has shortened the record.
   * The last entries of a worker are committed with it, also if the answer is `more`: an unread message keeps a natural
   * end going. `not_due`: the sweeper came too early. `settled` or `same` with status `queued`: add the job.
   */
  settle: {
    keys: [...COMMIT_KEYS, "life", "live", "registry", "usage", "parent_lease", "transcript"],
    context: [
      ...COMMIT_CONTEXT,
      "uid",
      "check_ms",
      "default_idle_ms",
      "registry_ttl_ms",
      "usage_ttl_ms",
      "hints",
      "event_ttl_ms",
    ],
    args: {
      ...COMMIT,
      /** From a worker only; parent and sweeper send none. */
      epoch: optional(int),
      known: optional(int),
      running_ms: optional(int),
      authority: word("worker", "parent", "sweeper"),
      target: word("idle", "ended"),
      ended_reason: optional(endedReason),
      status: word(...ReplyStatus.options),
      stop_reason: word(...StopReason.options),
      /** The run ended by itself: an unread message keeps it going. */
      natural: optional(flag),
      /** Idle time of an agent that stays; absent: ten minutes. */
      idle_ms: optional(int),
      /** From a sweeper: `error` of the reply, as JSON; then `progress` is that of a run without one. */
      failure: optional(text),
    },
    lists: { entries: ENTRIES },
    answers: {
      settled: { reply_id: text, ...current },
      same: { ended_reason: optional(endedReason), ...current, by_other: flag },
      more: holderStatus,
      conflict: {},
      not_due: { deadline: int },
      stale: {},
      unknown: {},
    },
  },
  /** Asks for a graceful end; nothing that the end does not need is waited for any more. `wake`: the number of a queued run's wake. */
  finish: {
    keys: ["record", "parent_lease"],
    context: ["check_ms"],
    args: {
      /** From a sweeper, for an agent whose parent is gone; `not_due`: it came back. */ orphaned:
        optional(flag),
    },
    answers: {
      finishing: { run: int, wake: optional(int) },
      idle: {},
      not_due: {},
      ended: { reason: endedReason },
      unknown: {},
    },
  },
  ...SWEEPER_VERBS,
  ...PARENT_VERBS,
} as const satisfies Readonly<Record<string, Verb>>;

/** Every verb. */
export const VERBS = { ...AGENT_VERBS, ...INSTALLATION_VERBS };
