/** `finish`: asks an agent's run to reply with what it has found. */
import type { FinishReceipt } from "../../producer/agents.ts";
import { type ActingFlags, AGENT_ID, actAsParent, actingOptions } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue finish data_collector

Its reply has the status partial and the stop reason finished_by_parent. If it
has no answer yet, it reports without another model call.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .argument("<agent_id>", AGENT_ID)
    .addHelpText("after", HELP)
    .action(async (agentId: string, flags: ActingFlags) => done(await finish(open("warn"), agentId, flags)));
};

/** Runs the command; succeeds also if the agent is idle or has ended. Throws `unknown_agent`. */
function finish(context: CommandContext, agentId: string, flags: ActingFlags): Promise<number> {
  return actAsParent(context, "finish", flags, async ({ parent }) => {
    const receipt = await parent.finish(agentId);
    context.output.result(flags.json ? toJsonLine(receipt) : sentenceAbout(receipt));
    return EXIT.done;
  });
}

function sentenceAbout(receipt: FinishReceipt): string {
  switch (receipt.status) {
    case "finishing":
      return `Finishing run ${receipt.run}: its reply will say what it has found.`;
    case "idle":
      return "Idle: no run is going on.";
    case "already_ended":
      return `It had already ended (${receipt.ended_reason}).`;
  }
}
