/** The tools every worker has. */
import type { Clock } from "../../../shared/clock.ts";
import { createLineMatcherPool } from "../line-matcher.ts";
import type { Tool } from "../tool.ts";
import { askParentTool } from "./ask-parent.ts";
import { editFileTool } from "./edit-file.ts";
import { globTool } from "./glob.ts";
import { grepTool } from "./grep.ts";
import { readFileTool } from "./read-file.ts";
import { sendAgentMessageTool } from "./send-agent-message.ts";
import { writeFileTool } from "./write-file.ts";

/** `read_file`, `write_file`, `edit_file`, `glob`, `grep`, `send_agent_message` and `ask_parent`; the searches of one set share four matching threads. */
export function createBaseTools({ clock }: { clock: Clock }): Tool[] {
  const search = { matchers: createLineMatcherPool(), clock };
  return [
    readFileTool(),
    writeFileTool(),
    editFileTool(),
    globTool(search),
    grepTool(search),
    sendAgentMessageTool(),
    askParentTool(),
  ];
}
