/** `spawn`: makes an agent that waits for messages, and may give it the first one at once. */
import { type ActingFlags, actAsParent, noteMissingWorkers } from "./acting.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { toJsonLine } from "./json.ts";
import { readText } from "./prompt-input.ts";
import { plainLine } from "./text.ts";

/** What the command line says. */
export interface SpawnFlags extends ActingFlags {
  description?: string;
  model?: string;
  /** Names of tools, separated by commas. */
  tools?: string;
  keepAlive: boolean;
  /** First message; `-` reads it from standard input. */
  prompt?: string;
}

/** Runs the command. The agent's id is the result, so that a script can keep it. Throws like spawn and send. */
export function spawn(context: CommandContext, name: string, flags: SpawnFlags): Promise<number> {
  const { description, model, tools, keepAlive } = flags;
  const wish = {
    name,
    ...(description !== undefined && { description }),
    ...(model !== undefined && { model }),
    ...(tools !== undefined && { tools: tools.split(",") }),
    keep_alive: keepAlive,
  };
  return actAsParent(context, "spawn", flags, async (acting) => {
    const { parent } = acting;
    const { output } = context;
    // Read before anything is made: a prompt that is refused leaves no agent behind.
    const prompt =
      flags.prompt === undefined ? undefined : await readText(flags.prompt, context.input, "The prompt");
    const receipt = await parent.spawn(wish);
    const { agent_id, limits, unknown_tools } = receipt;
    if (unknown_tools.length > 0) {
      output.note(`No live worker has ${unknown_tools.map(plainLine).join(", ")}: without effect for now.`);
    }
    const message = prompt === undefined ? undefined : await parent.send(agent_id, prompt);
    output.result(flags.json ? toJsonLine({ ...receipt, ...(message && { message }) }) : agent_id);
    if (message) noteMissingWorkers(acting);
    else if (!flags.json) {
      const { model: asked } = receipt;
      output.note(
        `Created, ${plainLine(asked)}, at most ${limits.max_turns} turns a run. It waits: subagent-queue send ${agent_id} "…"`,
      );
    }
    return EXIT.done;
  });
}
