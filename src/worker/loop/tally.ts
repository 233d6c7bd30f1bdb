/** What a run has come to: counters, cost, alerts and summary, computed from its log alone. */
import { addUsage, totalTokens, type Usage, ZERO_USAGE } from "../../shared/protocol/content.ts";
import type { AlertThresholds, Limits } from "../../shared/protocol/limits.ts";
import type { Alert, ReplyBody } from "../../shared/protocol/reply.ts";
import type { Log } from "./log.ts";
import { type RunView, viewRun } from "./run-view.ts";
import { summarise } from "./summary.ts";

/** Share of a cap at which the default alert lies. */
const DEFAULT_ALERT_SHARE = 0.8;

/** What a run is judged by. */
export interface Rules {
  limits: Limits;
  alerts?: AlertThresholds;
  /** Model asked for; named in replies of runs that never got an answer. */
  model: string;
  /** Tools whose interrupted calls are simply made again. */
  idempotentTools: ReadonlySet<string>;
  /** Whether the parent can be asked. */
  canAsk: boolean;
}

/** Tokens and money of a run, calls that were paid for in vain included. */
export interface Spent {
  usage: Usage;
  tokens: number;
  costUsd: number;
}

/** What the run of `view` has spent. */
export function spentBy(log: Log, view: RunView): Spent {
  let usage = ZERO_USAGE;
  let costUsd = 0;
  const add = (bought: { usage: Usage; cost_usd: number }) => {
    usage = addUsage(usage, bought.usage);
    costUsd += bought.cost_usd;
  };
  for (const turn of view.turns) add(turn.entry);
  for (const purchase of log.entries.purchases.values()) {
    if (view.firstMessage !== undefined && purchase.message > view.firstMessage) add(purchase);
  }
  return { usage, tokens: totalTokens(usage), costUsd };
}

/** The reply's body, if the run ended here. */
export function tally(log: Log, rules: Rules): ReplyBody {
  const view = viewRun(log);
  const spent = spentBy(log, view);
  const toolsCalled = callsByName(view);
  const failure = log.entries.failures.get(view.userMessage + 1);
  const counts = {
    turns: view.turns.length,
    tokens: spent.tokens,
    tool_calls: [...toolsCalled.values()].reduce((sum, n) => sum + n, 0),
    cost_usd: spent.costUsd,
  };
  return {
    ...summarise(lastText(view)),
    turns: counts.turns,
    tokens: counts.tokens,
    usage: spent.usage,
    cost_usd: spent.costUsd,
    tools_called: Object.fromEntries(toolsCalled),
    alerts: alertsAt(counts, rules),
    duration_ms: Math.round(log.elapsedMs),
    model: view.turns.at(-1)?.entry.model ?? rules.model,
    ...(failure && { error: failure.message }),
  };
}

/** The last non-empty text of the run, whole; empty when there is none. */
export function lastText(view: RunView): string {
  return view.turns.findLast((turn) => turn.text.trim() !== "")?.text ?? "";
}

/** Names are the model's, `constructor` and its like included: only a map counts them safely. */
function callsByName(view: RunView): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { name, started, result } of view.turns.flatMap((turn) => turn.calls)) {
    if (started || result) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

function alertsAt(counts: Record<Alert["kind"], number>, { limits, alerts = {} }: Rules): Alert[] {
  const share = (cap: number | undefined) => (cap === undefined ? undefined : cap * DEFAULT_ALERT_SHARE);
  const thresholds: Record<Alert["kind"], number | undefined> = {
    turns: alerts.turns ?? share(limits.max_turns),
    tokens: alerts.tokens ?? share(limits.max_total_tokens),
    tool_calls: alerts.tool_calls,
    cost_usd: alerts.cost_usd ?? share(limits.max_cost_usd),
  };
  return (Object.keys(thresholds) as Alert["kind"][]).flatMap((kind) => {
    const threshold = thresholds[kind];
    return threshold !== undefined && counts[kind] >= threshold
      ? [{ kind, threshold, value: counts[kind] }]
      : [];
  });
}
