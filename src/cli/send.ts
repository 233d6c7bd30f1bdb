/** `send`: gives an agent a message; its reply comes through `replies`. */
import { type Acting, type ActingFlags, actAsParent, noteMissingWorkers } from "./acting.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { toJsonLine } from "./json.ts";
import { readText } from "./prompt-input.ts";

/** Runs the command; `-` reads the message from standard input. Throws `unknown_agent`, `agent_ended`, `inbox_full`. */
export function send(
  context: CommandContext,
  agentId: string,
  message: string,
  flags: ActingFlags,
): Promise<number> {
  return actAsParent(context, "send", flags, async (acting) => {
    const text = await readText(message, context.input, "The message");
    const receipt = await acting.parent.send(agentId, text);
    const { status, run } = receipt;
    const sentence = status === "queued" ? `Queued as run ${run}.` : `Delivered to run ${run}.`;
    context.output.result(flags.json ? toJsonLine(receipt) : sentence);
    if (status === "delivered") await noteQuestion(acting, agentId);
    noteMissingWorkers(acting);
    return EXIT.done;
  });
}

/** Says that a message is no answer, where an agent waits for one. */
async function noteQuestion({ context, parent }: Acting, agentId: string): Promise<void> {
  const view = await parent.get(agentId).catch(() => undefined);
  if (view?.status !== "waiting") return;
  context.output.note(
    `${agentId} waits for an answer and reads this after it: subagent-queue answer ${agentId} "…"`,
  );
}
