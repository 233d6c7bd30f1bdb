/** `continue`: spawns an agent that continues the conversation of an ended one. */
import { type ActingFlags, actAsParent, actingOptions, noteMissingWorkers } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { readText } from "../local/input.ts";
import { toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue continue data_collector "And which of them are tested?"
  id=$(subagent-queue continue data_collector - < question.txt)

The new agent knows what the old one was told, said and found. Its turns, tokens and
cost count from zero; the budgets of the old one bind it, too. The conversation is kept until
the ack of the old agent's end, or as long as transcript_ms of its profile says.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .argument("<agent_id>", "the id of an agent that has ended")
    .argument("<message>", "what the new one is to do; - reads it from standard input")
    .option("--request-key <key>", "repeatable: the same call with the same key finds the same agent")
    .addHelpText("after", HELP)
    .action(async (agentId: string, message: string, flags: ContinueFlags) =>
      done(await goOn(open("warn"), agentId, message, flags)),
    );
};

interface ContinueFlags extends ActingFlags {
  requestKey?: string;
}

/** Runs the command; prints the new agent's id. Throws `unknown_agent`, `unknown_transcript`, `conflict`, and as spawn. */
function goOn(
  context: CommandContext,
  agentId: string,
  message: string,
  flags: ContinueFlags,
): Promise<number> {
  return actAsParent(context, "continue", flags, async (acting) => {
    const text = await readText(message, context, "The message");
    const { requestKey: request_key } = flags;
    const receipt = await acting.parent.resume(agentId, text, {
      ...(request_key !== undefined && { request_key }),
    });
    context.output.result(flags.json ? toJsonLine(receipt) : receipt.agent_id);
    noteMissingWorkers(acting);
    return EXIT.done;
  });
}
