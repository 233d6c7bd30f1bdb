/** `send`: gives an agent a message; `replies` prints its reply. */
import {
  type ActingFlags,
  AGENT_ID,
  actAsParent,
  actingOptions,
  answerCommand,
  noteMissingWorkers,
  type ParentSession,
} from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { readText } from "../local/input.ts";
import { toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue send data_collector "And what is each of them for?"
  subagent-queue send data_collector - < question.txt
  subagent-queue send data_collector "Go on" --message-id step-7

A Redis that stops answering may have taken the message: the error names its id,
and the same call with that --message-id sends it if it is not there yet.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .argument("<agent_id>", AGENT_ID)
    .argument("<message>", "the message; - reads it from standard input")
    .option("--message-id <id>", "repeatable: the same call with the same id sends the message once")
    .addHelpText("after", HELP)
    .action(async (agentId: string, message: string, flags: SendFlags) =>
      done(await send(open("warn"), agentId, message, flags)),
    );
};

/** Command-line flags. */
interface SendFlags extends ActingFlags {
  /** Id of the message; default: a random one. */
  messageId?: string;
}

/**
 * Runs the command; `-` reads the message from standard input. Throws `unknown_agent`, `agent_ended`, `inbox_full`, `log_full`,
 * and `conflict` for a message id that was used with another text.
 */
function send(context: CommandContext, agentId: string, message: string, flags: SendFlags): Promise<number> {
  return actAsParent(context, "send", flags, async (acting) => {
    const text = await readText(message, context, "The message");
    const { messageId: message_id } = flags;
    const receipt = await acting.parent.send(agentId, text, message_id === undefined ? {} : { message_id });
    const { status, run } = receipt;
    const sentence = status === "queued" ? `Queued as run ${run}.` : `Delivered to run ${run}.`;
    context.output.result(flags.json ? toJsonLine(receipt) : sentence);
    if (status === "delivered") await noteQuestion(acting, agentId);
    noteMissingWorkers(acting);
    return EXIT.done;
  });
}

/** Prints a note if the agent waits for an answer, because this message is not that answer. */
async function noteQuestion(acting: ParentSession, agentId: string): Promise<void> {
  const { context, parent } = acting;
  const view = await parent.get(agentId).catch(() => undefined);
  if (view?.status !== "waiting") return;
  context.output.note(
    `${agentId} waits for an answer and reads this after it: ${answerCommand(acting, agentId)}`,
  );
}
