/** The trace that an agent's runs belong to: W3C trace context, as a record carries it and every worker reads it. Pure. */
import { createHash } from "node:crypto";
import { z } from "zod";

const FORM = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;
const SAMPLED = "01";

/** The header `traceparent` of version 00: the caller's trace and span, and whether they are sampled. */
export const Traceparent = z
  .string()
  .regex(FORM, "a W3C traceparent: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, lower case");

/** A span as other processes know it. */
export interface RemoteSpan {
  /** 32 hex digits. */
  traceId: string;
  /** 16 hex digits. */
  spanId: string;
  /** Bit 1: sampled. */
  traceFlags: number;
}

/** The header for a span. */
export function traceparentOf({ traceId, spanId, traceFlags }: RemoteSpan): string {
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, "0")}`;
}

/**
 * What run `run` of agent `uid` belongs to: the span whose caller spawned the agent, else a trace of its own. That one
 * is computed from the ids, so that each worker which carries on the run finds the same; it counts as sampled.
 */
export function spanOfRun(uid: string, run: number, traceparent?: string): RemoteSpan {
  const [, traceId, spanId, flags] = FORM.exec(traceparent ?? ownTrace(uid, run)) ?? [];
  return { traceId: traceId ?? "", spanId: spanId ?? "", traceFlags: Number.parseInt(flags ?? "0", 16) };
}

function ownTrace(uid: string, run: number): string {
  const digest = createHash("sha256").update(`${uid}.${run}`).digest("hex");
  return `00-${digest.slice(0, 32)}-${digest.slice(32, 48)}-${SAMPLED}`;
}
