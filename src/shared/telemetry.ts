/**
 * The one door to OpenTelemetry: its API alone, an optional peer of this package. The SDK, the exporter and the sampler
 * are the application's. Loaded with its first use: importing the package costs nothing.
 */
import { messageOf } from "./errors.ts";
import { traceparentOf } from "./protocol/ids.ts";

/** The API as a module. */
export type TelemetryApi = typeof import("@opentelemetry/api");

let loading: Promise<TelemetryApi | undefined> | undefined;

/** The API; undefined where it is not installed. */
export function telemetryApi(): Promise<TelemetryApi | undefined> {
  loading ??= import("@opentelemetry/api").catch(() => undefined);
  return loading;
}

let isTold = false;

/**
 * What `work` returns; undefined where the application's sampler, span processor or context manager throws in it: no call of ours
 * ends by that. The first such problem is a warning of the process.
 */
export function unlessTelemetryFails<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    const sentence = `OpenTelemetry fails, and spans are missing: ${messageOf(error)}`;
    if (!isTold) process.emitWarning(sentence, { code: "SUBAGENT_TELEMETRY" });
    isTold = true;
    return undefined;
  }
}

/** `traceparent` of the span that is active where this is called; undefined without one. */
export async function activeTraceparent(): Promise<string | undefined> {
  const api = await telemetryApi();
  return unlessTelemetryFails(() => {
    const span = api?.trace.getSpanContext(api.context.active());
    return api && span && api.isSpanContextValid(span) ? traceparentOf(span) : undefined;
  });
}
