/** The tools every worker has. */
import type { Clock } from "../../../shared/clock.ts";
import { createSearchMeans } from "../search/search.ts";
import type { Tool } from "../tool.ts";
import { editFileTool } from "./edit-file.ts";
import { globTool } from "./glob.ts";
import { grepTool } from "./grep.ts";
import { askParentTool, sendAgentMessageTool } from "./parent.ts";
import { readFileTool } from "./read-file.ts";
import { writeFileTool } from "./write-file.ts";

/** Creates the base tools of a worker; the searches of one set share their matching processes and their queue. */
export function createBaseTools({ clock }: { clock: Clock }): Tool[] {
  const search = createSearchMeans(clock);
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
