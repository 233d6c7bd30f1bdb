/** Errors the model port raises within itself; none of them leaves it, `failure.ts` turns them into data. */

/** A stream of the provider that went silent for longer than the idle timeout. */
export class TransportTimeoutError extends Error {
  override readonly name = "TransportTimeoutError";
  /** @param idleMs how long nothing had arrived, in milliseconds */
  constructor(idleMs: number) {
    super(`the response stream stalled: nothing arrived for ${Math.round(idleMs)} ms`);
  }
}

/** An answer that is not a usable message: missing parts, a tool input that is no JSON object, unknown deltas. */
export class MalformedTurnError extends Error {
  override readonly name = "MalformedTurnError";
}

/** An answer that broke off before its end although the connection closed cleanly. */
export class TruncatedStreamError extends Error {
  override readonly name = "TruncatedStreamError";
  /** Read by {@link errorCode}: a broken wire, in the words of the transport. */
  readonly code = "ECONNRESET";
  constructor() {
    super("the response stream ended before the message was complete");
  }
}

/** The first `code` string found on `error` or along its `cause` chain. */
export function errorCode(error: unknown): string | undefined {
  const seen = new Set<unknown>();
  for (let at = error; typeof at === "object" && at !== null && !seen.has(at); ) {
    seen.add(at);
    if ("code" in at && typeof at.code === "string" && at.code !== "") return at.code;
    at = "cause" in at ? at.cause : undefined;
  }
  return undefined;
}
