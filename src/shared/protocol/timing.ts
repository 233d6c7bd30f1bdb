/** How long things last. One table; `docs/protocol.md` explains each line. */

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;

/** Durations of the protocol, ms. Every process of one installation uses the same. */
export interface Timing {
  /** A worker's claim lives this long after the sending of its last renewal. */
  leaseMs: number;
  /** A worker renews this often. */
  renewMs: number;
  /** A worker that could not renew stops its run this long before the lease ends. */
  leaseMarginMs: number;
  /** A queued agent is looked at after this long; doubling up to `longestLookMs` while its job still waits. */
  lookMs: number;
  longestLookMs: number;
  /** An unanswered message ends its agent after this long, whatever happened. */
  maxAgeMs: number;
  /** Request keys and message ids are remembered this long. */
  requestTtlMs: number;
  /** Unacked replies, and what is kept of an ended agent, live this long. */
  replyTtlMs: number;
  /** After the ack, what is kept of an ended agent lives this long. */
  keptAfterAckMs: number;
  /** The registry of names lives this long after the parent's last spawn, message or end of an agent. */
  registryTtlMs: number;
  /** What a parent's runs used is kept this long, by days; whole days. */
  usageTtlMs: number;
  /** A provider gate closes this long at first when nobody says how long; doubling up to `longestGateBackoffMs`. */
  gateBackoffMs: number;
  longestGateBackoffMs: number;
  /** A run that waits at a closed gate asks again after this long at the latest, plus its place in the line. */
  gateAskMs: number;
  /** A gate at which nobody waits is healthy again this long after it opened. */
  gateQuietMs: number;
  /** A refused credential closes its gate this long at first; doubling up to `longestBreakerMs`. */
  breakerMs: number;
  longestBreakerMs: number;
}

/** The durations in use unless a test says otherwise. */
export const TIMING: Timing = {
  leaseMs: 10 * SECOND,
  renewMs: 3 * SECOND,
  leaseMarginMs: 2 * SECOND,
  lookMs: 10 * SECOND,
  longestLookMs: 60 * SECOND,
  maxAgeMs: DAY,
  requestTtlMs: DAY,
  replyTtlMs: 7 * DAY,
  keptAfterAckMs: DAY,
  registryTtlMs: 30 * DAY,
  usageTtlMs: 90 * DAY,
  gateBackoffMs: SECOND / 2,
  longestGateBackoffMs: 60 * SECOND,
  gateAskMs: 60 * SECOND,
  gateQuietMs: 60 * SECOND,
  breakerMs: 30 * SECOND,
  longestBreakerMs: 600 * SECOND,
};

/** Idle time after which an idle agent is destroyed, unless its profile says otherwise. */
export const IDLE_MS = 600 * SECOND;
/** A sub-agent's question waits this long for its answer, unless its parent set another time. */
export const ANSWER_MS = HOUR;
/** The job of a wake that was taken stays visible this long. */
export const WAKE_DONE_KEPT_MS = HOUR;
/** The job of a wake whose run failed stays visible this long. */
export const WAKE_FAILED_KEPT_MS = DAY;
/** Most live agents a parent may have. */
export const MAX_LIVE_AGENTS = 10;
