/** `answer`: gives an agent the answer that it waits for. */
import { type ActingFlags, actAsParent, noteMissingWorkers } from "./acting.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { toJsonLine } from "./json.ts";
import { readText } from "./prompt-input.ts";

/** What the command line says. */
export interface AnswerFlags extends ActingFlags {
  /** Which question; default the oldest open one. */
  question?: string;
}

/**
 * Runs the command; `-` reads the answer from standard input. Throws `unknown_agent`, `agent_ended`, `unknown_question`,
 * `already_answered`.
 */
export function answer(
  context: CommandContext,
  agentId: string,
  answer: string,
  flags: AnswerFlags,
): Promise<number> {
  return actAsParent(context, "answer", flags, async (acting) => {
    const text = await readText(answer, context.input, "The answer");
    const { question: questionId } = flags;
    const receipt = await acting.parent.answer(agentId, text, questionId === undefined ? {} : { questionId });
    const goesOn = receipt.agent_status === "waiting" ? "it has asked more than this" : "it goes on";
    context.output.result(flags.json ? toJsonLine(receipt) : `Answered ${receipt.agent_id}: ${goesOn}.`);
    noteMissingWorkers(acting);
    return EXIT.done;
  });
}
