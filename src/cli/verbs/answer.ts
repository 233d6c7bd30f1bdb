/** `answer`: answers an agent's question. */
import type { AgentStatus } from "../../shared/protocol/agent.ts";
import { type ActingFlags, AGENT_ID, actAsParent, actingOptions, noteMissingWorkers } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { readText } from "../local/input.ts";
import { toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue answer data_collector "Take the second one"
  subagent-queue answer data_collector "EUR" --question 3/toolu_01A

list shows the open questions, replies all that are not acked, with their ids and
what became of them. The first answer counts.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .argument("<agent_id>", AGENT_ID)
    .argument("<answer>", "the answer; - reads it from standard input")
    .option("--question <id>", "which question, as replies prints it; default: the oldest open one")
    .addHelpText("after", HELP)
    .action(async (agentId: string, text: string, flags: AnswerFlags) =>
      done(await answer(open("warn"), agentId, text, flags)),
    );
};

/** Command-line flags. */
interface AnswerFlags extends ActingFlags {
  /** Id of the question; default: the oldest open one. */
  question?: string;
}

/** Clause about an agent that does not go on after an answer, by its status. */
const FOLLOWS: Partial<Record<AgentStatus, string>> = {
  waiting: "it waits for another answer",
  ended: "it has ended since",
};

/**
 * Runs the command; `-` reads the answer from standard input. Throws `unknown_agent`, `agent_ended`, `unknown_question`,
 * `already_answered`.
 */
function answer(
  context: CommandContext,
  agentId: string,
  answer: string,
  flags: AnswerFlags,
): Promise<number> {
  return actAsParent(context, "answer", flags, async (acting) => {
    const text = await readText(answer, context, "The answer");
    const { question: question_id } = flags;
    const receipt = await acting.parent.answer(
      agentId,
      text,
      question_id === undefined ? {} : { question_id },
    );
    const { agent_id, agent_status } = receipt;
    context.output.result(
      flags.json ? toJsonLine(receipt) : `Answered ${agent_id}: ${FOLLOWS[agent_status] ?? "it goes on"}.`,
    );
    noteMissingWorkers(acting);
    return EXIT.done;
  });
}
