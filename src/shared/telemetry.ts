/**
 * The one door to OpenTelemetry: its API alone, an optional peer of this package. The SDK, the exporter and the sampler
 * are the application's. Loaded with its first use: importing the package costs nothing.
 */
import { traceparentOf } from "./protocol/ids.ts";

/** The API as a module. */
export type TelemetryApi = typeof import("@opentelemetry/api");

let loading: Promise<TelemetryApi | undefined> | undefined;

/** The API; undefined where it is not installed. */
export function telemetryApi(): Promise<TelemetryApi | undefined> {
  loading ??= import("@opentelemetry/api").catch(() => undefined);
  return loading;
}

/** `traceparent` of the span that is active where this is called; undefined without one. */
export async function activeTraceparent(): Promise<string | undefined> {
  const api = await telemetryApi();
  const span = api?.trace.getSpanContext(api.context.active());
  return api && span && api.isSpanContextValid(span) ? traceparentOf(span) : undefined;
}
