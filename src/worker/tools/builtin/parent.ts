/** Tools for talking to the parent: `ask_parent`, which waits for an answer, and `send_agent_message`, which does not. */
import { z } from "zod";
import { ToolFailure } from "../../../shared/errors.ts";
import { ASK_TOOL, QuestionInput } from "../../../shared/protocol/message.ts";
import { defineTool, type Tool } from "../tool.ts";

/**
 * `ask_parent` as the model sees it. The loop handles a well-formed call as a step, so this tool only gets input that is no
 * question.
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

/** Name of the tool that sends an interim message to the parent. */
export const INTERIM_TOOL = "send_agent_message";
/** Maximum number of interim messages of one run. */
export const INTERIMS_PER_RUN = 20;
/** Maximum code points of one interim message. */
const INTERIM_MAX_CHARS = 5_000;

/**
 * Returns the interim message of a call: `text` after `said`, if there is any, with a blank line between. Throws
 * {@link ToolFailure} if `text` is no message.
 */
export function interimWith(said: string | undefined, text: unknown): string {
  if (typeof text !== "string") throw new ToolFailure("A message to the parent must be text.");
  if (text.trim() === "") throw new ToolFailure("The message is empty: write what your parent should know.");
  const message = said === undefined ? text : `${said}\n\n${text}`;
  // A code point takes at most two code units.
  if (message.length > 2 * INTERIM_MAX_CHARS || [...message].length > INTERIM_MAX_CHARS)
    throw new ToolFailure(`The message is longer than ${INTERIM_MAX_CHARS} characters: shorten it.`);
  return message;
}

/** The only recipient to which a sub-agent may write. */
const PARENT = "parent";

/** `send_agent_message`. Its message is committed together with its result: both or neither. */
export function sendAgentMessageTool(): Tool {
  return defineTool({
    name: INTERIM_TOOL,
    description:
      "Tell your parent something before you are done: a finding that cannot wait, or how far you are. It cannot " +
      "answer. Your last message reaches it anyway.",
    input: z.object({
      target_agent_id: z.string().describe('Always "parent"'),
      message: z.string().describe(`At most ${INTERIM_MAX_CHARS} characters`),
    }),
    usesWorkspace: false,
    async run({ target_agent_id, message }, { tellParent }) {
      if (target_agent_id.trim().toLowerCase() !== PARENT) {
        throw new ToolFailure(`You can only write to your parent: set target_agent_id to "${PARENT}".`);
      }
      tellParent(message);
      return "Delivered to your parent.";
    },
  });
}
