/** `spawn`: creates an agent that waits for messages; with --prompt also sends the first one. */
import { OFFLINE_MODEL } from "../../shared/config.ts";
import { newRequestKey } from "../../shared/protocol/ids.ts";
import type { Effort } from "../../shared/protocol/limits.ts";
import { type ActingFlags, actAsParent, actingOptions, noteMissingWorkers } from "../as-parent.ts";
import { agentOptions, type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { defaultModel } from "../local/client.ts";
import { readText } from "../local/input.ts";
import { readOutputSchema } from "../local/output-schema.ts";
import { plainLine, toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue spawn "Data Collector" --prompt "Which Lua scripts are there?"
  subagent-queue spawn "Look around" --agent explorer --prompt "Where is the lease renewed?"
  id=$(subagent-queue spawn reviewer --tools read_file,grep --keep-alive)
  subagent-queue spawn summariser --prompt - < notes.txt
  subagent-queue spawn finder --schema files.json --prompt "Which files are tests?"
  subagent-queue spawn reporter --prompt "Report on May" --request-key report-may

A Redis that stops answering may have made the agent: the error names a key, and
the same call with that --request-key makes no second one.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .argument("<name>", "its name for people; its id is derived from it")
    .option("--description <text>", "what it is for")
    .option("--agent <definition>", "the agent definition it is made from; the verb definitions lists them");
  agentOptions(command)
    .option("--keep-alive", "take further messages after a reply; default: as the parent's profile says")
    .option("--prompt <text>", "send this as the first message; - reads it from standard input")
    .option(
      "--request-key <key>",
      "repeatable: the same call with the same key finds the same agent, and sends --prompt once",
    )
    .addHelpText("after", HELP)
    .action(async (name: string, flags: SpawnFlags) => done(await spawn(open("warn"), name, flags)));
};

/** Command-line flags. */
interface SpawnFlags extends ActingFlags {
  description?: string;
  /** Name of an agent definition. */
  agent?: string;
  model?: string;
  effort?: Effort;
  taskBudget?: number;
  /** Names of tools, separated by commas. */
  tools?: string;
  /** Path of the output schema. */
  schema?: string;
  /** Undefined: as the parent's profile says. */
  keepAlive?: true;
  /** First message; `-` reads it from standard input. */
  prompt?: string;
  /** Idempotency key of the agent and its first message; default: a random one. */
  requestKey?: string;
}

/**
 * Runs the command. Prints the agent's id, so that a script can store it. Throws `invalid_input` for a schema before it asks
 * Redis anything, else as spawn and send do.
 */
async function spawn(context: CommandContext, name: string, flags: SpawnFlags): Promise<number> {
  const { description, agent, model, effort, taskBudget, tools, keepAlive } = flags;
  const { requestKey = newRequestKey() } = flags;
  const outputSchema = await readOutputSchema(flags.schema, context);
  const input = {
    name,
    request_key: requestKey,
    ...(description !== undefined && { description }),
    ...(agent !== undefined && { agent }),
    ...(model !== undefined && { model }),
    ...(effort !== undefined && { effort }),
    ...(taskBudget !== undefined && { task_budget: taskBudget }),
    ...(tools !== undefined && { tools: tools.split(",") }),
    ...(outputSchema && { output_schema: outputSchema }),
    ...(keepAlive && { keep_alive: true }),
  };
  return actAsParent(context, "spawn", flags, async (acting) => {
    const { parent } = acting;
    const { output } = context;
    // The prompt is read before the spawn, so that an invalid prompt leaves no agent behind.
    const prompt =
      flags.prompt === undefined ? undefined : await readText(flags.prompt, context, "The prompt");
    const receipt = await parent.spawn(input);
    const { agent_id, limits, unknown_tools } = receipt;
    if (unknown_tools.length > 0) {
      const names = unknown_tools.map(plainLine).join(", ");
      output.note(
        acting.workers.length > 0
          ? `No live worker offers ${names}: the agent works without it.`
          : `No worker is live: the agent's runs wait for one that offers ${names}.`,
      );
    }
    const message =
      prompt === undefined ? undefined : await parent.send(agent_id, prompt, { message_id: requestKey });
    output.result(flags.json ? toJsonLine({ ...receipt, ...(message && { message }) }) : agent_id);
    if (message) noteMissingWorkers(acting);
    else if (!flags.json) {
      const { model: asked } = receipt;
      output.note(
        `Created, ${plainLine(asked)}, at most ${limits.max_turns} turns a run. It waits: subagent-queue send ${agent_id} "…"`,
      );
    }
    if (receipt.model === OFFLINE_MODEL && defaultModel(context.config, acting.workers) === undefined)
      output.note(
        "Its model is offline-1, which answers by rule: neither SUBAGENT_MODEL nor a live worker names another.",
      );
    return EXIT.done;
  });
}
