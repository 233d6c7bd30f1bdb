/** Numbers for people: tokens, money, durations. Pure. */
import { DAY_MS } from "../../shared/protocol/usage.ts";

const grouped = new Intl.NumberFormat("en-US");
const dollars = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** Formats `12345` as `12,345`. */
export function formatCount(count: number): string {
  return grouped.format(count);
}

/** Formats a count in at most 7 characters: `123,456`, then `1.23M`. */
export function formatCompact(count: number): string {
  return count < 1_000_000 ? formatCount(count) : `${(count / 1_000_000).toFixed(2)}M`;
}

/** Formats USD: four decimals below a dollar, two above; zero is `$0`, any other amount at least `$0.0001`. */
export function formatUsd(usd: number): string {
  if (usd === 0) return "$0";
  return usd < 0.99995 ? `$${Math.max(usd, 0.0001).toFixed(4)}` : `$${dollars.format(usd)}`;
}

/** Formats the value or threshold of an alert: USD to the millionth, a count whole; a run reaches 0.8 turns with its first. */
export function formatReached(kind: string, reached: number): string {
  return kind === "cost_usd" ? String(Number(reached.toFixed(6))) : formatCount(Math.ceil(reached));
}

/** Formats a finished duration: `0.4 s`, `12.3 s`, `2 min 5 s`. */
export function formatDuration(ms: number): string {
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Formats the time since a start, in at most 6 characters: `3s`, `2m05s`, `1h02m`. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3_600)];
  const two = (count: number) => String(count).padStart(2, "0");
  if (hours > 0) return `${hours}h${two(minutes % 60)}m`;
  return minutes > 0 ? `${minutes}m${two(seconds % 60)}s` : `${seconds}s`;
}

/** Formats a length of time that was chosen: `30d`, `24h`, `1h30m`, `90s` as `1m30s`. */
export function formatLength(ms: number): string {
  if (ms > DAY_MS && ms % DAY_MS === 0) return `${ms / DAY_MS}d`;
  return formatAge(ms).replace(/(?<=[hm])00[ms]$/, "");
}

/** Formats a count with its noun: `1 turn`, `2 turns`; `plural` is for nouns with an irregular plural. */
export function formatPlural(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}

const UNITS = [
  ["d", DAY_MS],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** Formats a span in its largest whole unit: `3 d`, `7 h`, `12 s`. */
export function formatSpan(ms: number): string {
  const [unit, size] = UNITS.find(([, length]) => ms >= length) ?? ["s", 1_000];
  return `${Math.floor(ms / size)} ${unit}`;
}

/**
 * Fills a template with a count: `#agent (is|are) late` for 2 is `2 agents are late`; `#(entry|entries)` is a noun with an
 * irregular plural.
 */
export function sentence(template: string, count: number): string {
  return template.replace(
    /#(\w+)|(#?)\(([^()|]+)\|([^()|]+)\)/g,
    (_, noun: string | undefined, counted: string, one: string, many: string) => {
      if (noun !== undefined) return formatPlural(count, noun);
      return counted ? formatPlural(count, one, many) : count === 1 ? one : many;
    },
  );
}
