/**
 * Keeps the last object of each hidden class alive, so that V8 keeps its optimized code.
 *
 * V8 optimizes code for the hidden classes of the objects that it met. If a full collection finds no live object of such a
 * class, V8 drops all code optimized for it. Between two model calls most classes of a call have no live object. A worker
 * that collected in a quiet moment would begin its next runs with cold code, and pay a seventh more for them. So the last
 * object of each kind stays until the next one replaces it: at most what one run holds.
 */

/** Kinds of short-lived objects that each call creates in great number. */
type Kind =
  | "session"
  | "results"
  | "plan"
  | "request"
  | "stream"
  | "message"
  | "answer"
  | "checks"
  | "command"
  | "flush"
  | "limit";

/** The last object of each kind: written when one is created, never read. */
export const keptForV8: Partial<Record<Kind, object>> = {};
