/** `usage`: shows the usage of a parent's runs, in whole days (UTC). */
import type { Parent } from "../../producer/parent.ts";
import { SubagentError } from "../../shared/errors.ts";
import { addUsage } from "../../shared/protocol/content.ts";
import { TIMING } from "../../shared/protocol/limits.ts";
import { quoted } from "../../shared/protocol/text.ts";
import { DAY_MS, type UsageTotals } from "../../shared/protocol/usage.ts";
import { type BoundBudget, budgetsOf, readSpent } from "../../shared/redis/budget.ts";
import { unlessAborted } from "../../shared/stop-signal.ts";
import { type ActingFlags, actAsParent, actingOptions, SEEN_PARENT } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { readInstallation } from "../local/parents.ts";
import { formatCount, formatLength, formatPlural, formatUsd } from "../terminal/numbers.ts";
import { lineCells, toJsonLine, wrap } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue usage
  subagent-queue usage --since 7d
  subagent-queue usage --since 2026-11-01 --json

Without --parent: the sum of the configured parent and of every parent that the
verbs run and start created; with --json, other_parents is the number of those.
The budgets are those of the configured parent and its tenant. Each run and start
without --parent is a parent of its own, with a budget of its own.`;

const KEPT_DAYS = TIMING.usageTtlMs / DAY_MS;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command, SEEN_PARENT)
    .option(
      "--since <when>",
      `2026-11-01, 2026-11-01T12:00:00Z or 7d; default and most: the last ${KEPT_DAYS} days`,
    )
    .addHelpText("after", HELP)
    .action(async (flags: UsageFlags) => done(await usage(open("warn"), flags)));
};

/** Command-line flags. */
interface UsageFlags extends ActingFlags {
  /** A day, a point in time, or a number of days back: `2026-11-01`, `2026-11-01T12:00:00Z`, `7d`. */
  since?: string;
}

const DAYS_BACK = /^(\d{1,4})d$/;
const ISO_DATE = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/** Runs the command. Throws `invalid_input` for an invalid --since. */
async function usage(context: CommandContext, flags: UsageFlags): Promise<number> {
  const sinceAt = (nowMs: number) => (flags.since === undefined ? undefined : sinceOf(flags.since, nowMs));
  // A wrong --since is refused without Redis.
  sinceAt(context.clock.now());
  return actAsParent(context, "usage", flags, async ({ parent, others, redisNowMs }) => {
    const nowMs = redisNowMs();
    const given = sinceAt(nowMs);
    const isKept = given === undefined || given.getTime() > nowMs - TIMING.usageTtlMs;
    const since = isKept ? given : undefined;
    const read = [parent, ...others].map((each) => each.usage(since && { since }));
    const all = await unlessAborted(context.signal, Promise.all(read));
    const totals = all.reduce(added);
    const { output } = context;
    const { parentId } = parent;
    const budgets = await spentOfBudgets(context, parent);
    const day = since?.toISOString().slice(0, 10);
    if (flags.json) {
      const whose = { parent_id: parentId, other_parents: others.length };
      output.result(toJsonLine({ ...whose, since: day ?? null, ...totals, budgets }));
    } else {
      const own = others.length > 0 ? ` and ${formatPlural(others.length, "parent")} of run and start` : "";
      const used = budgets.map((budget) => renderBudget(budget, parentId));
      if (!isKept) output.note(`Usage is kept for ${KEPT_DAYS} days: nothing is known of the time before.`);
      const width = lineCells(output.resultColumns);
      const lines = [...renderUsage(parentId + own, day, totals), ...used];
      output.result(lines.flatMap((line) => wrap(line, width)));
    }
    return EXIT.done;
  });
}

/** A budget from the environment, and its spent amount. */
interface BudgetUse {
  of: BoundBudget["of"];
  max_cost_usd: number;
  spent_usd: number;
  /** Absent: since the parent's first call. */
  window_ms?: number;
}

/** Reads how much the parent and its tenant have spent of the budgets in the environment. */
function spentOfBudgets(context: CommandContext, { tenant, parentId }: Parent): Promise<BudgetUse[]> {
  const { agent: _, ...budgets } = context.config.budgets;
  const bound = budgetsOf({ tenant, parentId, uid: "" }, budgets);
  if (bound.length === 0) return Promise.resolve([]);
  return readInstallation(context, "usage", ({ redis, keys }) =>
    Promise.all(
      bound.map(async (budget) => ({
        of: budget.of,
        max_cost_usd: (budget.maxMicroUsd ?? 0) / 1_000_000,
        spent_usd: (await readSpent(redis, keys, budget)).costUsd,
        ...(budget.windowMs !== undefined && { window_ms: budget.windowMs }),
      })),
    ),
  );
}

function renderBudget({ of, max_cost_usd, spent_usd, window_ms }: BudgetUse, parentId: string): string {
  const window = window_ms === undefined ? "" : `, the last ${formatLength(window_ms)}`;
  const whose = of === "parent" ? `parent ${parentId}` : "tenant";
  return `  budget of the ${whose}: ${formatUsd(spent_usd)} of ${formatUsd(max_cost_usd)}${window}`;
}

/** Parses --since. Throws `invalid_input`. */
export function sinceOf(text: string, nowMs: number): Date {
  const [, days] = DAYS_BACK.exec(text) ?? [];
  const date =
    days === undefined ? new Date(ISO_DATE.test(text) ? text : "") : new Date(nowMs - Number(days) * DAY_MS);
  const isReal = !Number.isNaN(date.getTime()) && (days !== undefined || isRealDay(text.slice(0, 10)));
  if (isReal && date.getTime() >= 0) return date;
  const shown = quoted(text);
  const sentence = `--since ${shown} cannot be used: write a day (2026-11-01), a time (2026-11-01T12:00:00Z) or days back (7d).`;
  throw new SubagentError("invalid_input", sentence);
}

/** Returns false for a day like `2026-02-30`, which Date turns into one in March. */
function isRealDay(day: string): boolean {
  const date = new Date(day);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(day);
}

function added(sum: UsageTotals, more: UsageTotals): UsageTotals {
  return {
    replies: sum.replies + more.replies,
    turns: sum.turns + more.turns,
    tokens: sum.tokens + more.tokens,
    cost_usd: sum.cost_usd + more.cost_usd,
    usage: addUsage(sum.usage, more.usage),
  };
}

function renderUsage(parentId: string, day: string | undefined, totals: UsageTotals): string[] {
  const { replies, turns, tokens, usage: kinds, cost_usd } = totals;
  return [
    `${parentId}, ${day === undefined ? `the last ${KEPT_DAYS} days` : `since ${day}`}`,
    `  ${formatPlural(replies, "reply", "replies")} · ${formatPlural(turns, "turn")} · ${formatPlural(tokens, "token")} · ${formatUsd(cost_usd)}`,
    `  tokens: ${formatCount(kinds.input_tokens)} in, ${formatCount(kinds.output_tokens)} out, ` +
      `${formatCount(kinds.cache_read_input_tokens)} read from cache, ` +
      `${formatCount(kinds.cache_creation_input_tokens)} written to cache`,
  ];
}
