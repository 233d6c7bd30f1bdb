/**
 * The only access to OpenTelemetry: its API alone, an optional peer of this package. The application brings the SDK, the
 * exporter and the sampler. The first use loads the API: importing the package costs nothing.
 */
import { messageOf } from "./errors.ts";
import { traceparentIn, traceparentOf } from "./protocol/ids.ts";

/** Module type of the API. */
export type TelemetryApi = typeof import("@opentelemetry/api");

let loading: Promise<TelemetryApi | undefined> | undefined;

/** Loads the API; resolves to undefined if it is not installed. */
export function telemetryApi(): Promise<TelemetryApi | undefined> {
  loading ??= import("@opentelemetry/api").catch(() => undefined);
  return loading;
}

let isReported = false;

/**
 * Returns the result of `work`; undefined if the application's sampler, span processor or context manager throws in it, because
 * telemetry must end no call. The first failure is a warning of the process.
 */
export function unlessTelemetryFails<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    const sentence = `OpenTelemetry fails, and spans are missing: ${messageOf(error)}`;
    if (!isReported) process.emitWarning(sentence, { code: "SUBAGENT_TELEMETRY" });
    isReported = true;
    return undefined;
  }
}

/** Returns the `traceparent` of the span that is active at the call; undefined if there is none. */
export async function activeTraceparent(): Promise<string | undefined> {
  const api = await telemetryApi();
  return unlessTelemetryFails(() => {
    const span = api?.trace.getSpanContext(api.context.active());
    return api && span && api.isSpanContextValid(span) ? traceparentOf(span) : undefined;
  });
}

/** Returns the span that a request over HTTP comes from: the active one, else that of its header `traceparent`, if any. */
export async function requestTraceparent(header: string | undefined): Promise<{ traceparent?: string }> {
  const traceparent = (await activeTraceparent()) ?? traceparentIn(header);
  return traceparent === undefined ? {} : { traceparent };
}
