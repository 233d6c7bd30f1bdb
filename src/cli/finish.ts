/** `finish`: asks an agent's run to hand back what it has. */
import type { FinishReceipt } from "../producer/managing.ts";
import { type ActingFlags, actAsParent } from "./acting.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { toJsonLine } from "./json.ts";

/** Runs the command; also an agent that is idle or has ended is an answer. Throws `unknown_agent`. */
export function finish(context: CommandContext, agentId: string, flags: ActingFlags): Promise<number> {
  return actAsParent(context, "finish", flags, async ({ parent }) => {
    const receipt = await parent.finish(agentId);
    context.output.result(flags.json ? toJsonLine(receipt) : sentenceAbout(receipt));
    return EXIT.done;
  });
}

function sentenceAbout(receipt: FinishReceipt): string {
  switch (receipt.status) {
    case "finishing":
      return `Finishing run ${receipt.run}: its reply comes with what it has found.`;
    case "idle":
      return "Idle: no run is going on.";
    case "already_ended":
      return `Had ended before (${receipt.ended_reason}).`;
  }
}
