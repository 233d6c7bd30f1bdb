/** `ps`: shows the recently active parents with their running and waiting agents and today's usage. */
import { Option } from "commander";
import { type AgentStatus, isoTime } from "../../shared/protocol/agent.ts";
import { DAY_MS } from "../../shared/protocol/usage.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { noteQueuedWithoutWorker } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, durationOrDaysMs, EXIT, wholeUpTo } from "../command.ts";
import { type ParentSnapshot, readInstallation, readParentSnapshots } from "../local/parents.ts";
import { notePause } from "../local/pause.ts";
import { formatAge, formatCompact, formatLength, formatPlural, formatUsd } from "../terminal/numbers.ts";
import type { Style } from "../terminal/output.ts";
import { type Column, renderTable } from "../terminal/table.ts";
import { lineCells, toJsonLine, wrap } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue ps
  subagent-queue ps --since 1h --limit 10
  subagent-queue ps --since 30d
  subagent-queue ps --json | jq -r '.parents[] | [.parent_id, .today.cost_usd] | @tsv'

It shows the parents of every tenant on the Redis of REDIS_URL.`;

/** Parents of a table unless --limit says otherwise: what a person looks at. */
const DEFAULT_SHOWN = 50;
const MOST_SHOWN = 1_000_000;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  command
    .addOption(
      new Option("--since <time>", "parents that were active within this time, such as 1h or 30d")
        .argParser(durationOrDaysMs)
        .default(DAY_MS, "24h"),
    )
    .option(
      "--limit <count>",
      `at most so many parents, the last active ones (default: ${DEFAULT_SHOWN}; with --json: all)`,
      wholeUpTo(MOST_SHOWN, 1),
    )
    .option("--json", "results as JSON on standard output, and nothing else there", false)
    .addHelpText("after", HELP)
    .action(async (flags: PsFlags) => done(await ps(open("warn"), flags)));
};

interface PsFlags {
  since: number;
  limit?: number;
  json: boolean;
}

/** Runs the command. Throws `invalid_config` without REDIS_URL, `redis_unavailable`. */
async function ps(context: CommandContext, { since, json, limit }: PsFlags): Promise<number> {
  const { output } = context;
  const most = limit ?? (json ? MOST_SHOWN : DEFAULT_SHOWN);
  const [{ nowMs, snapshots, unreadable, more }, paused, workers] = await readInstallation(
    context,
    "ps",
    (reading) =>
      Promise.all([
        readParentSnapshots(reading, { activeWithinMs: since, most }),
        reading.pause.state(),
        reading.workers.list(),
      ]),
  );
  notePause(context, paused);
  const redis = withoutPassword(context.config.redisUrl ?? "");
  noteQueuedWithoutWorker(
    { context, workers, redis },
    snapshots.flatMap(({ agents }) => agents),
  );
  for (const { problem, ...parent } of unreadable)
    output.note(`${nameOf(parent)} is left out: its data in Redis cannot be read (${problem}).`);
  const broken = unreadable.map(({ tenant, parentId, problem }) => ({
    tenant,
    parent_id: parentId,
    problem,
  }));
  if (json)
    output.result(
      toJsonLine({
        parents: snapshots.map(asJson),
        ...(broken.length > 0 && { unreadable: broken }),
        ...(more > 0 && { more }),
        paused: paused ?? null,
      }),
    );
  else if (snapshots.length === 0) output.note(`No parent was active in the last ${formatLength(since)}.`);
  else output.result(renderParents(snapshots, nowMs, output.resultColumns, output.resultStyle));
  if (more > 0 && !json)
    output.note(
      `${formatPlural(more, "more parent")} ${more === 1 ? "was" : "were"} active in the last ${formatLength(since)}: --limit ${most + more} shows all.`,
    );
  return EXIT.done;
}

function asJson({ parent, activeAtMs, agents, today, unacked }: ParentSnapshot): Record<string, unknown> {
  const { turns, tokens, cost_usd } = today;
  return {
    tenant: parent.tenant,
    parent_id: parent.parentId,
    active_at: isoTime(activeAtMs),
    sub_agents: agents.map(({ agent_id, status, run }) => ({ agent_id, status, run })),
    today: { turns, tokens, cost_usd },
    unacked,
  };
}

/** Width to which a long name is cut before a column is left out; with it, 80 columns still show cost and age. */
const PARENT_LEAST_CELLS = 30;
const STATUSES: readonly AgentStatus[] = ["running", "queued", "waiting", "idle"];

/** Returns the table of parents, and totals if there are several. */
export function renderParents(
  snapshots: readonly ParentSnapshot[],
  nowMs: number,
  columns: number | undefined,
  style: Style,
): string[] {
  const counted = (status: AgentStatus) => (snapshot: ParentSnapshot) =>
    String(snapshot.agents.filter((agent) => agent.status === status).length || "·");
  const statuses = STATUSES.map((title, n): Column<ParentSnapshot> => {
    return { title, align: "right", leaves: n === 3 ? 5 : 0, text: counted(title) };
  });
  const table: Column<ParentSnapshot>[] = [
    { title: "parent", leaves: 0, least: PARENT_LEAST_CELLS, text: ({ parent }) => nameOf(parent) },
    ...statuses,
    { title: "unacked", align: "right", leaves: 3, text: ({ unacked }) => String(unacked || "·") },
    { title: "tokens today", align: "right", leaves: 4, text: ({ today }) => formatCompact(today.tokens) },
    { title: "cost today", align: "right", leaves: 1, text: ({ today }) => formatUsd(today.cost_usd) },
    {
      title: "active",
      align: "right",
      leaves: 2,
      text: ({ activeAtMs }) => `${formatAge(nowMs - activeAtMs)} ago`,
    },
  ];
  const sum = (pick: (snapshot: ParentSnapshot) => number) =>
    snapshots.reduce((total, snapshot) => total + pick(snapshot), 0);
  const live = formatPlural(
    sum(({ agents }) => agents.length),
    "live agent",
  );
  const cost = formatUsd(sum(({ today }) => today.cost_usd));
  const footer = `${formatPlural(snapshots.length, "parent")} · ${live} · ${cost} today (UTC)`;
  const width = lineCells(columns);
  return [
    ...renderTable(snapshots, table, { columns, style }),
    ...(snapshots.length > 1 ? wrap(footer, width).map((line) => style("dim", line)) : []),
  ];
}

function nameOf({ tenant, parentId }: ParentSnapshot["parent"]): string {
  return tenant === "default" ? parentId : `${tenant}/${parentId}`;
}
