/**
 * Keeps the last object of each hidden class alive, so that V8 keeps its optimized code.
 *
 * V8 optimizes code for the hidden classes of the objects that it met. When a full collection finds no object of such a class
 * alive, all code optimized for it goes too, and between two calls of a model most classes of a call have no object. A worker
 * that collected in a quiet moment would begin its next runs with cold code, and pay a seventh more for them. So the last
 * object of each kind stays until the next one takes its place: at most what one run holds.
 */

/** What has many short-lived objects on the path of a call. */
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

/** The last object of each kind: written when one is made, never read. */
export const lastOf: Partial<Record<Kind, object>> = {};
