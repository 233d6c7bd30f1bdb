/** Reads how long a provider asks us to wait: `retry-after-ms`, or `retry-after` in seconds or as a date. Pure. */

const DECIMAL = /^\d+(?:\.\d+)?$/;
/** RFC 9110 dates name a weekday; anything looser that `Date.parse` would take is garbage here. */
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)/i;

/**
 * Milliseconds the response asks us to wait, at least 0; undefined when it does not ask or what it says makes no
 * sense. A date is compared with the response's own `Date` header, so a wrong local clock does not matter.
 *
 * @param nowMs wall clock, used for a date when the response has no `Date` header
 */
export function retryAfterMs(headers: Headers, nowMs: number): number | undefined {
  const ms = headers.get("retry-after-ms")?.trim();
  if (ms !== undefined && DECIMAL.test(ms)) return finite(Number(ms));
  const value = headers.get("retry-after")?.trim();
  if (value === undefined) return undefined;
  if (DECIMAL.test(value)) return finite(Number(value) * 1000);
  if (!HTTP_DATE.test(value)) return undefined;
  const sentMs = Date.parse(headers.get("date") ?? "");
  return finite(Math.max(0, Date.parse(value) - (Number.isNaN(sentMs) ? nowMs : sentMs)));
}

function finite(ms: number): number | undefined {
  return Number.isFinite(ms) ? Math.ceil(ms) : undefined;
}
