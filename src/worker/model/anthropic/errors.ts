/** Errors the adapter raises within itself; none of them leaves it, `failure.ts` turns them into data. */

/** A provider that took longer than it may: for the whole call, or without a byte. */
export class TimeLimitError extends Error {
  override readonly name = "TimeLimitError";
}

/** A call that this process ended. */
export class CallAbortedError extends Error {
  override readonly name = "CallAbortedError";
}

/** An answer that is not a usable message: missing parts, too large, unknown deltas. */
export class MalformedAnswerError extends Error {
  override readonly name = "MalformedAnswerError";
}

/** An answer that broke off before its end although the connection closed cleanly. */
export class TruncatedStreamError extends Error {
  override readonly name = "TruncatedStreamError";
  /** Read by `classify`: a broken wire, in the words of the transport. */
  readonly code = "ECONNRESET";
  constructor() {
    super("the response stream ended before the message was complete");
  }
}
