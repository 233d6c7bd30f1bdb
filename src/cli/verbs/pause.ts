/** `pause`: stops all spending of an installation; for operators. */
import { SubagentError } from "../../shared/errors.ts";
import { PauseReason } from "../../shared/redis/pause.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { onInstallation } from "../local/pause.ts";
import { pausedSince } from "../local/wait.ts";
import { lineCells, toJsonLine, wrap } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue pause
  subagent-queue pause --reason "the budget of this month is used up"

A model call in flight may still end; its result is kept, since it is billed
anyway. Runs wait in the queue, at no cost, but a message that waits for a day
ends its agent even while paused. Workers may be stopped and started meanwhile.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  command
    .option("--reason <text>", "why; shown to everyone who asks for the state")
    .option("--json", "the result as JSON", false)
    .addHelpText("after", HELP)
    .action(async (flags: PauseFlags) => done(await pause(open("warn"), flags)));
};

interface PauseFlags {
  /** Reason; shown wherever the pause is shown. */
  reason?: string;
  /** Print the result as JSON. */
  json: boolean;
}

/** Runs `pause`; succeeds also if the installation is already paused. Throws `invalid_input` for an invalid reason. */
async function pause(context: CommandContext, { reason, json }: PauseFlags): Promise<number> {
  const checked = PauseReason.optional().safeParse(reason);
  if (!checked.success) {
    throw new SubagentError("invalid_input", "--reason cannot be used: write 1 to 500 characters.");
  }
  const { state, address } = await onInstallation(context, "pause", (pausing) => pausing.pause(checked.data));
  const sentence = `The installation on ${address} is ${pausedSince(state)}: no model call begins and no run is taken; calls in flight may still end.`;
  const width = lineCells(context.output.resultColumns);
  context.output.result(json ? toJsonLine({ paused: true, ...state }) : wrap(sentence, width));
  if (checked.data !== undefined && state.reason !== checked.data) {
    context.output.note("It was paused already: the first reason is kept.");
  }
  if (!json) context.output.note("Messages are accepted as before. Go on with: subagent-queue resume");
  return EXIT.done;
}
