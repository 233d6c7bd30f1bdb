/** `resume`: ends the pause of an installation. */
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { onInstallation } from "../local/pause.ts";
import { pausedSince } from "../local/wait.ts";
import { lineCells, toJsonLine, wrap } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue resume
  subagent-queue resume --json | jq -r '.was.at'`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  command
    .option("--json", "the result as JSON", false)
    .addHelpText("after", HELP)
    .action(async (flags: ResumeFlags) => done(await resume(open("warn"), flags)));
};

interface ResumeFlags {
  /** Print the result as JSON. */
  json: boolean;
}

/** Runs `resume`; succeeds also if the installation was not paused. */
async function resume(context: CommandContext, { json }: ResumeFlags): Promise<number> {
  const { state, address } = await onInstallation(context, "resume", (pausing) => pausing.resume());
  const sentence = state
    ? `The installation on ${address} goes on. It was ${pausedSince(state)}.`
    : `The installation on ${address} was not paused.`;
  const width = lineCells(context.output.resultColumns);
  context.output.result(json ? toJsonLine({ paused: false, was: state ?? null }) : wrap(sentence, width));
  return EXIT.done;
}
