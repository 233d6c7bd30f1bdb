/** `ask_parent`: a question to the parent, for which the agent waits. */
import { ASK_TOOL, QuestionInput } from "../../../shared/protocol/question.ts";
import { defineTool, type Tool, ToolFailure } from "../tool.ts";

/**
 * The tool as the model sees it. A well-formed call is a step of the loop and never gets here; only input that is no
 * question is answered as by any other tool.
 */
export function askParentTool(): Tool {
  return defineTool({
    name: ASK_TOOL,
    description:
      "Ask your parent something that only it can decide, and wait for its answer. Waiting can take long: work out " +
      "yourself whatever you can.",
    input: QuestionInput,
    idempotent: true,
    async run() {
      throw new ToolFailure("The question was not asked. Go on without an answer.");
    },
  });
}
