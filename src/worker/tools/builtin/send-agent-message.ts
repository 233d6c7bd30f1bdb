/** `send_agent_message`: an interim word to the parent, and to nobody else. */
import { z } from "zod";
import { defineTool, type Tool, ToolFailure } from "../tool.ts";

/** Its name. */
export const INTERIM_TOOL = "send_agent_message";
/** Most interim messages of one run. */
export const INTERIMS_PER_RUN = 20;
/** Most code points of one interim message. */
const INTERIM_MAX_CHARS = 5_000;
/** The only target a sub-agent may write to. */
const PARENT = "parent";

/** The tool. Its message is committed together with its result: both or neither. */
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
    async run({ target_agent_id, message }, { tellParent }) {
      if (target_agent_id.trim().toLowerCase() !== PARENT) {
        throw new ToolFailure(`You can only write to your parent: set target_agent_id to "${PARENT}".`);
      }
      if (message.trim() === "")
        throw new ToolFailure("The message is empty: write what your parent should know.");
      if ([...message].length > INTERIM_MAX_CHARS) {
        throw new ToolFailure(`The message is longer than ${INTERIM_MAX_CHARS} characters: shorten it.`);
      }
      tellParent(message);
      return "Delivered to your parent.";
    },
  });
}
