/** `schedule`: creates, lists, pauses, resumes and removes scheduled tasks. */
import { unknownSchedule } from "../../producer/schedule-store.ts";
import type { ScheduleView } from "../../producer/schedules.ts";
import { SubagentError } from "../../shared/errors.ts";
import { CRON_FORM } from "../../shared/protocol/schedule.ts";
import { clip } from "../../shared/protocol/text.ts";
import { type ActingFlags, actAsParent, actingOptions } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT, intervalMs } from "../command.ts";
import { readText } from "../local/input.ts";
import { plainLine, toJsonLine } from "../terminal/text.ts";

const HELP = `
Without --cron, --every, --at, --pause, --resume and --remove it lists the schedules.

Examples:
  subagent-queue schedule morning --cron "0 7 * * 1-5" --tz Europe/Berlin --prompt "Which tests failed last night?"
  subagent-queue schedule watch --every 30m --prompt - < watch.md
  subagent-queue schedule once --at 2030-01-01T08:00:00Z --prompt "Wish a happy new year"
  subagent-queue schedule --json
  subagent-queue schedule morning --pause      --resume, --remove`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .argument("[id]", "the schedule's name within its parent")
    .option("--cron <pattern>", CRON_FORM)
    .option("--tz <zone>", "time zone of --cron, default UTC")
    .option("--every <time>", "interval, such as 90s, 2h or 7d; from 1s to 366d", intervalMs)
    .option("--at <time>", "a single time in the future, ISO 8601")
    .option("--prompt <text>", "what the sub-agent is to do; -, the default, reads standard input")
    .option("--name <name>", "the agent's name for people, default the schedule's")
    .option("--tools <names>", "exactly these tools, separated by commas")
    .option("--pause", "stop its runs until --resume", false)
    .option("--resume", "start its runs again", false)
    .option("--remove", "remove it; tasks that have begun go on", false)
    .addHelpText("after", HELP)
    .action(async (id: string | undefined, flags: ScheduleFlags) =>
      done(await scheduleVerb(open("warn"), id, flags)),
    );
};

/** Command-line flags. */
interface ScheduleFlags extends ActingFlags {
  cron?: string;
  tz?: string;
  every?: number;
  at?: string;
  prompt?: string;
  name?: string;
  tools?: string;
  pause: boolean;
  resume: boolean;
  remove: boolean;
}

function scheduleVerb(
  context: CommandContext,
  id: string | undefined,
  flags: ScheduleFlags,
): Promise<number> {
  const { cron, tz, every, at, prompt, name, tools, pause, resume, remove, json } = flags;
  const isNew = refuseMixed(id, flags) === "new";
  return actAsParent(context, "schedule", { ...flags, handsOver: isNew }, async ({ parent }) => {
    const print = (views: readonly ScheduleView[]) =>
      context.output.result(json ? toJsonLine(views) : views.map(lineOf).join("\n") || "No schedules.");
    if (id === undefined) {
      print(await parent.schedules());
      return EXIT.done;
    }
    if (remove) {
      await parent.unschedule(id);
      context.output.result(json ? toJsonLine({ schedule_id: id, status: "removed" }) : `${id} removed`);
      return EXIT.done;
    }
    if (pause) print([await parent.pauseSchedule(id)]);
    else if (resume) print([await parent.resumeSchedule(id)]);
    else if (!isNew) {
      const found = (await parent.schedules()).filter((each) => each.schedule_id === id);
      if (found.length === 0) throw unknownSchedule(id);
      print(found);
    } else {
      const task = {
        prompt: await promptIn(context, prompt),
        ...(name !== undefined && { name }),
        ...(tools !== undefined && { tools: tools.split(",") }),
      };
      print([await parent.schedule({ schedule_id: id, cron, tz, every_ms: every, at, ...task })]);
    }
    return EXIT.done;
  });
}

/** Returns whether the flags make a new schedule or not. Throws `invalid_input` for flags that do not go together. */
function refuseMixed(id: string | undefined, flags: ScheduleFlags): "new" | "known" {
  const given = (names: readonly (keyof ScheduleFlags)[]) =>
    names.filter((name) => flags[name] !== undefined && flags[name] !== false).map((name) => `--${name}`);
  const times = given(["cron", "every", "at"]);
  const [action, ...more] = given(["pause", "resume", "remove"]);
  const task = given(["prompt", "name", "tools", "tz"]);
  const isNew = times.length > 0;
  const refusal =
    (id === undefined && (isNew || action || task.length > 0) && "Name the schedule: schedule <id> …") ||
    (action && (isNew || more.length > 0) && "Choose one: --pause, --resume, --remove, or a time.") ||
    (action && task.length > 0 && `${task.join(" and ")} cannot go with ${action}: leave out one of them.`) ||
    (task.length > 0 && !isNew && "Give a time: --cron, --every or --at.");
  if (refusal) throw new SubagentError("invalid_input", refusal);
  return isNew ? "new" : "known";
}

/** Reads the prompt; default: standard input, but not from a terminal, where it would wait. Throws `invalid_input`. */
function promptIn(context: CommandContext, prompt: string | undefined): Promise<string> {
  if (prompt === undefined && context.input.isTTY)
    throw new SubagentError("invalid_input", "Give --prompt, or --prompt - to read standard input.");
  return readText(prompt ?? "-", context, "The prompt");
}

function lineOf(view: ScheduleView): string {
  const { schedule_id, cron, tz, every_ms, at, paused, next_at, prompt } = view;
  const rhythm = cron ? `${cron} ${tz ?? ""}`.trim() : every_ms ? `every ${every_ms / 1_000} s` : `at ${at}`;
  const next = paused ? "paused" : `next ${next_at ?? "–"}`;
  return clip([schedule_id, rhythm, next, prompt].map(plainLine).join("  "), 200);
}
