/** `logs`: prints the agents' events that Redis has kept; with --follow also the new ones. */

import { inBatches } from "../../shared/batch.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { type EventLine, readEvents, type TimelineOffsets } from "../../shared/redis/events.ts";
import { parentIdOf, SEEN_PARENT } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import {
  findAgent,
  KEPT_MS,
  type ReadInstallation,
  type Reading,
  resolveParents,
  withReading,
} from "../local/parents.ts";
import type { Output } from "../terminal/output.ts";
import { lineAbout } from "../terminal/progress.ts";
import { cutTo, lineCells, plainLine, toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue logs
  subagent-queue logs --follow
  subagent-queue logs data_collector --parent planner-7
  subagent-queue logs --json | jq -c 'select(.type == "ended")'

Without --parent: the configured parent and every parent that the verbs run and
start created; those are named before their agents, and with --json every line has
its parent_id. Events are kept for a day.`;

const CHECK_EVERY_MS = 1_000;
/** Interval of the search for new parents, because an installation has many; a new one is printed with all its events. */
const FAMILY_EVERY_MS = 5_000;
const PAGE_LINES = 500;
/** Number of parents that are read in parallel. */
const BATCH = 100;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  command
    .argument("[agent_id]", "one agent; default: all of them")
    .option("-f, --follow", "keep printing new events, until Ctrl-C", false)
    .option("--parent <id>", SEEN_PARENT)
    .option("--json", "one JSON line per event", false)
    .addHelpText("after", HELP)
    .action(async (agentId: string | undefined, flags: LogsFlags) =>
      done(await logs(open("warn"), agentId, flags)),
    );
};

interface LogsFlags {
  follow: boolean;
  parent?: string;
  json: boolean;
}

/**
 * Runs the command. Throws `unknown_agent` for an agent without events or record (not with --follow), `invalid_input` for
 * --parent, `invalid_config` without REDIS_URL, `redis_unavailable` if the first read fails: --follow goes on after an outage.
 */
async function logs(context: CommandContext, agentId: string | undefined, flags: LogsFlags): Promise<number> {
  const { clock, signal, output } = context;
  const named = flags.parent === undefined ? undefined : parentIdOf(flags.parent);
  const own = named ?? context.config.parentId;
  return withReading(context, "logs", async (read) => {
    const follower = new Follower(context, named);
    const printNew = async () => {
      const found = await read((reading) => follower.newLines(reading));
      return print(output, follower.take(found), { agentId, own, json: flags.json });
    };
    if ((await printNew()) === 0) {
      // With --follow the agent may be spawned later.
      if (agentId !== undefined && !flags.follow) await requireKnown(context, read, named, agentId);
      if (!flags.json) noteNothing(output, agentId);
    }
    let isAway = false;
    while (flags.follow && (await output.delivered())) {
      await clock.sleep(CHECK_EVERY_MS, signal);
      if (signal.aborted) break;
      const problem = await printNew().then(() => undefined, problemOfOutage);
      if (problem !== undefined && !isAway) output.note(`${problem} Trying again until it is back.`);
      isAway = problem !== undefined;
    }
    return EXIT.done;
  }).catch((error: unknown) => {
    // Ctrl-C is the end of --follow, also of one that is reading.
    if (flags.follow && signal.aborted) return EXIT.done;
    throw error;
  });
}

/** Returns the sentence about a Redis that is away for now; throws every other error. */
function problemOfOutage(error: unknown): string {
  if (error instanceof SubagentError && error.retryable) return messageOf(error);
  throw error;
}

function noteNothing(output: Output, agentId: string | undefined): void {
  const whose = agentId === undefined ? "" : ` of ${plainLine(agentId)}`;
  output.note(`No event${whose} is kept; events expire after a day.`);
}

/** Throws `unknown_agent` if no parent knows the agent, as `show` does. */
async function requireKnown(
  { config: { tenant, parentId } }: CommandContext,
  read: ReadInstallation,
  named: string | undefined,
  agentId: string,
): Promise<void> {
  const query = { configured: { tenant, parentId }, named, activeWithinMs: KEPT_MS.records };
  await read(async (reading) => findAgent(reading, await resolveParents(reading, query), agentId));
}

/** An event line with its parent: two parents may have agents with the same id. */
interface ParentLine extends EventLine {
  parentId: string;
}

/** Selects and names what is printed: the events of one agent or of all, and by name the parents other than `own`. */
interface Selection {
  agentId: string | undefined;
  own: string;
}

/** Prints the events of the lines; returns the number of printed lines. */
function print(
  output: Output,
  lines: readonly ParentLine[],
  { json, ...selection }: Selection & { json: boolean },
): number {
  const shown = lines.flatMap((line) => (json ? jsonOf(line, selection) : linesOf(line, selection, output)));
  if (shown.length > 0) output.result(shown);
  return shown.length;
}

/** New lines, oldest first, and the last event number that was read for each parent. */
interface NewLines {
  lines: ParentLine[];
  read: Map<string, string>;
}

/**
 * Reads the new events of all parents of the command. A read that fails half-way, or is given up and goes on, moves no parent's
 * number: the next one has all its lines.
 */
class Follower {
  readonly #context: CommandContext;
  readonly #named: string | undefined;
  /** Last event number of each parent whose lines were taken. */
  readonly #after = new Map<string, string>();
  readonly #offsets: TimelineOffsets = new Map();
  /** The followed parents; cached, because the search reads all parents of the installation. */
  #family: { readonly parents: ParentAddress[]; readonly atMs: number } | undefined;

  /** `named`: the only parent; undefined: the configured one and those of run and start. */
  constructor(context: CommandContext, named: string | undefined) {
    this.#context = context;
    this.#named = named;
  }

  /** Reads the lines since those that were taken last. */
  async newLines(reading: Reading): Promise<NewLines> {
    const parents = await this.#parents(reading);
    const read = new Map<string, string>();
    const lines = await inBatches(parents, BATCH, (parent) => this.#newLinesOf(reading, parent, read));
    return { lines: lines.flat().sort((a, b) => a.at.localeCompare(b.at)), read };
  }

  /** Returns the lines; the next read begins after them. */
  take({ lines, read }: NewLines): ParentLine[] {
    for (const [parentId, number] of read) this.#after.set(parentId, number);
    return lines;
  }

  async #parents(reading: Reading): Promise<ParentAddress[]> {
    const { clock, config } = this.#context;
    const { tenant, parentId } = config;
    const nowMs = clock.monotonicMs();
    if (!this.#family || nowMs - this.#family.atMs >= FAMILY_EVERY_MS)
      this.#family = {
        parents: await resolveParents(reading, {
          configured: { tenant, parentId },
          named: this.#named,
          activeWithinMs: KEPT_MS.events,
        }),
        atMs: nowMs,
      };
    return this.#family.parents;
  }

  async #newLinesOf(
    { redis, keys }: Reading,
    parent: ParentAddress,
    read: Map<string, string>,
  ): Promise<ParentLine[]> {
    const offsets = this.#offsets;
    const found: ParentLine[] = [];
    for (;;) {
      const after = read.get(parent.parentId) ?? this.#after.get(parent.parentId) ?? "0";
      const page = await readEvents(redis, keys, parent, { after, count: PAGE_LINES, offsets });
      found.push(...page.lines.map((line) => ({ ...line, parentId: parent.parentId })));
      if (page.last !== undefined) read.set(parent.parentId, page.last);
      if (!page.isFull) return found;
    }
  }
}

function jsonOf({ at, events, parentId: parent_id }: ParentLine, { agentId }: Selection): string[] {
  const about = events.filter((event) => agentId === undefined || event.agent_id === agentId);
  return about.map((event) => toJsonLine({ at, parent_id, ...event }));
}

/**
 * Returns lines like `12:03:04  data_collector  turn 2, grep`, or with `cli-7/data_collector` of another parent, cut to the
 * width of a terminal.
 */
function linesOf(line: ParentLine, { agentId, own }: Selection, output: Output): string[] {
  const { resultStyle: style, resultColumns: columns } = output;
  const parent = line.parentId === own ? "" : `${line.parentId}/`;
  return toldIn(line, agentId).map(({ time, agent, said }) => {
    const rest = `  ${plainLine(parent + agent)}  ${said}`;
    return `${style("dim", time)}${cutTo(rest, lineCells(columns) - time.length)}`;
  });
}

/** Returns the time (UTC), agent and text of each printable event of a line, of `agentId` or of all agents. */
export function toldIn(
  { at, events }: EventLine,
  agentId?: string,
): { time: string; agent: string; said: string }[] {
  const about = events.filter((event) => agentId === undefined || event.agent_id === agentId);
  return about.flatMap((event) => {
    const said = event.type === "ended" ? `ended: ${event.status} (${event.stop_reason})` : lineAbout(event);
    return said === undefined ? [] : [{ time: at.slice(11, 19), agent: event.agent_id, said }];
  });
}
