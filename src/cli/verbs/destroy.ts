/** `destroy`: ends an agent at once, in every state. */
import { type ActingFlags, AGENT_ID, actAsParent, actingOptions } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue destroy data_collector`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .argument("<agent_id>", AGENT_ID)
    .addHelpText("after", HELP)
    .action(async (agentId: string, flags: ActingFlags) => done(await destroy(open("warn"), agentId, flags)));
};

/** Runs the command; succeeds also if the agent has already ended. Throws `unknown_agent`. */
function destroy(context: CommandContext, agentId: string, flags: ActingFlags): Promise<number> {
  return actAsParent(context, "destroy", flags, async ({ parent }) => {
    const receipt = await parent.destroy(agentId);
    const { status, agent_id, ended_reason } = receipt;
    const sentence =
      status === "destroyed" ? `Destroyed ${agent_id}.` : `${agent_id} had already ended (${ended_reason}).`;
    context.output.result(flags.json ? toJsonLine(receipt) : sentence);
    return EXIT.done;
  });
}
