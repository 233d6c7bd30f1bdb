/** `usage`: what a parent's runs have used, in whole days (UTC). */
import { SubagentError } from "../shared/errors.ts";
import type { UsageTotals } from "../shared/protocol/usage.ts";
import { type ActingFlags, actAsParent } from "./acting.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { formatCount, formatPlural, formatUsd } from "./figures.ts";
import { toJsonLine } from "./json.ts";

/** What the command line says. */
export interface UsageFlags extends ActingFlags {
  /** A day, a point in time, or a number of days back: `2026-11-01`, `2026-11-01T12:00:00Z`, `7d`. */
  since?: string;
}

const DAY_MS = 86_400_000;
const DAYS_BACK = /^(\d{1,4})d$/;
const ISO_DATE = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/** Runs the command. Throws `invalid_input` for a --since that is no point in time. */
export async function usage(context: CommandContext, flags: UsageFlags): Promise<number> {
  const since = flags.since === undefined ? undefined : sinceOf(flags.since, context.clock.now());
  return actAsParent(context, "usage", flags, async ({ parent }) => {
    const totals = await parent.usage(since && { since });
    const { output } = context;
    const { parentId } = parent;
    const day = since?.toISOString().slice(0, 10);
    if (flags.json) output.result(toJsonLine({ parent_id: parentId, since: day ?? null, ...totals }));
    else output.result(...renderUsage(parentId, day, totals));
    return EXIT.done;
  });
}

/** The point in time that --since names. Throws `invalid_input`. */
export function sinceOf(text: string, nowMs: number): Date {
  const [, days] = DAYS_BACK.exec(text) ?? [];
  const date =
    days === undefined ? new Date(ISO_DATE.test(text) ? text : "") : new Date(nowMs - Number(days) * DAY_MS);
  // `2026-02-30` becomes a day in March: what is written must be what is meant.
  const isReal = !Number.isNaN(date.getTime()) && (text.length !== 10 || date.toISOString().startsWith(text));
  if (isReal && date.getTime() >= 0) return date;
  const shown = JSON.stringify(text.slice(0, 70));
  const sentence = `--since ${shown} cannot be used: write a day (2026-11-01), a time (2026-11-01T12:00:00Z) or days back (7d).`;
  throw new SubagentError("invalid_input", sentence);
}

function renderUsage(parentId: string, day: string | undefined, totals: UsageTotals): string[] {
  const { replies, turns, tokens, usage: kinds, cost_usd } = totals;
  return [
    `${parentId}, ${day === undefined ? "the last 90 days" : `since ${day}`}`,
    `  ${formatPlural(replies, "reply", "replies")} · ${formatPlural(turns, "turn")} · ${formatPlural(tokens, "token")} · ${formatUsd(cost_usd)}`,
    `  tokens: ${formatCount(kinds.input_tokens)} in, ${formatCount(kinds.output_tokens)} out, ` +
      `${formatCount(kinds.cache_read_input_tokens)} read from cache, ` +
      `${formatCount(kinds.cache_creation_input_tokens)} written to cache`,
  ];
}
