/** `destroy`: ends an agent at once, whatever it is doing. */
import { type ActingFlags, actAsParent } from "./acting.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { toJsonLine } from "./json.ts";

/** Runs the command; an agent that had ended before is an answer too. Throws `unknown_agent`. */
export function destroy(context: CommandContext, agentId: string, flags: ActingFlags): Promise<number> {
  return actAsParent(context, "destroy", flags, async ({ parent }) => {
    const receipt = await parent.destroy(agentId);
    const { status, agent_id, ended_reason } = receipt;
    const sentence =
      status === "destroyed" ? `Destroyed ${agent_id}.` : `${agent_id} had ended before (${ended_reason}).`;
    context.output.result(flags.json ? toJsonLine(receipt) : sentence);
    return EXIT.done;
  });
}
