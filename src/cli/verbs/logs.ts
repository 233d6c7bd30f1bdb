/** `logs`: what the agents did, event by event, as Redis has kept it; with --follow what they do. */
import type { ParentAddress } from "../../shared/protocol/keys.ts";
import { type EventLine, readEvents } from "../../shared/redis/events.ts";
import { parentIdOf } from "../as-parent.ts";
import { type CommandContext, EXIT, type Verb } from "../command.ts";
import { familyOf, type Reading, readInstallation } from "../local/parents.ts";
import type { Style } from "../terminal/output.ts";
import { lineAbout } from "../terminal/progress.ts";
import { cutTo, plainLine, toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue logs
  subagent-queue logs --follow
  subagent-queue logs data_collector --parent planner-7
  subagent-queue logs --json | jq -c 'select(.type == "ended")'

Without --parent: the configured parent and every parent that the verbs run and
start created. Events are kept for a day.`;

const LOOK_EVERY_MS = 1_000;
const PAGE_LINES = 500;

/** Its arguments, flags and action. */
export const verb: Verb = (command, open, done) => {
  command
    .argument("[agent_id]", "one agent; default: all of them")
    .option("-f, --follow", "keep printing new events, until Ctrl-C", false)
    .option("--parent <id>", "one parent; default: see below")
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

/** Runs the command. Throws `invalid_input` for --parent, `invalid_config` without REDIS_URL, `redis_unavailable`. */
async function logs(context: CommandContext, agentId: string | undefined, flags: LogsFlags): Promise<number> {
  const { config, output, clock, signal } = context;
  const named = flags.parent === undefined ? undefined : parentIdOf(flags.parent);
  const { tenant, parentId } = config;
  const after = new Map<string, string>();
  const read = () =>
    readInstallation(context, "logs", async (reading) => {
      const family = await familyOf(reading, { tenant, parentId }, named);
      return (await Promise.all(family.map((parent) => newLines(reading, parent, after)))).flat();
    });
  let printed = 0;
  do {
    const lines = (await read()).sort((a, b) => a.at.localeCompare(b.at));
    const style = output.resultStyle;
    const shown = lines.flatMap((line) =>
      flags.json ? jsonOf(line, agentId) : linesOf(line, agentId, style),
    );
    const columns = output.resultColumns;
    if (shown.length > 0)
      output.result(...(columns === undefined ? shown : shown.map((line) => cutTo(line, columns - 1))));
    printed += shown.length;
    if (flags.follow) await clock.sleep(LOOK_EVERY_MS, signal);
  } while (flags.follow && !signal.aborted && (await output.delivered()));
  if (printed === 0 && !flags.json) {
    const whose = agentId === undefined ? "" : ` of ${plainLine(agentId)}`;
    output.note(`No event${whose} is kept; events expire after a day.`);
  }
  return EXIT.done;
}

/** The lines of a parent that were not read before; `after` remembers up to where. */
async function newLines(
  { redis, keys }: Reading,
  parent: ParentAddress,
  after: Map<string, string>,
): Promise<EventLine[]> {
  const found: EventLine[] = [];
  for (;;) {
    const page = await readEvents(redis, keys, parent, after.get(parent.parentId) ?? "0", PAGE_LINES);
    found.push(...page);
    const last = page.at(-1);
    if (last) after.set(parent.parentId, last.number);
    if (page.length < PAGE_LINES) return found;
  }
}

function jsonOf({ at, events }: EventLine, agentId: string | undefined): string[] {
  const about = events.filter((event) => agentId === undefined || event.agent_id === agentId);
  return about.map((event) => toJsonLine({ at, ...event }));
}

/** `12:03:04  data_collector  turn 2, grep`. */
function linesOf(line: EventLine, agentId: string | undefined, style: Style): string[] {
  return toldIn(line, agentId).map(
    ({ time, agent, said }) => `${style("dim", time)}  ${plainLine(agent)}  ${said}`,
  );
}

/** What a line tells of an agent, or of all: at which time (UTC), of which agent, in which words. */
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
