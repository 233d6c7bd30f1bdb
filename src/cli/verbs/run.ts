/** `run`: gives each prompt on the command line to its own sub-agent and prints the replies. */
import { openDefinitions } from "../../producer/definitions/folders.ts";
import { DefinitionName, ProfileInput, readInput } from "../../producer/input.ts";
import { CEILING, type Effort, type LimitsInput, MAX_LIVE_AGENTS } from "../../shared/protocol/limits.ts";
import { parentIdOf } from "../as-parent.ts";
import {
  agentOptions,
  type CommandContext,
  type DefineCommand,
  durationMs,
  strictOptions,
  usd,
  wholeUpTo,
} from "../command.ts";
import { type NamedPrompt, type PromptFlags, runPrompts } from "../local/fan-out.ts";
import { readTexts, requireText } from "../local/input.ts";
import { readOutputSchema } from "../local/output-schema.ts";
import { showBanner, startLocalService } from "../local/service.ts";
import { cutTo, plain, plainLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue run "How many TODO comments are there?"
  subagent-queue run --agent code-reviewer "Review src/index.ts" "Review src/server.ts"
  subagent-queue run - < question.txt
  subagent-queue run --json "List the Lua scripts" | jq -r '.replies[0].summary'
  subagent-queue run --tools read_file,grep --max-turns 5 --timeout 2m "Where is the lease renewed?"
  subagent-queue run --schema files.json --json "Which files are tests?" | jq '.replies[0].output'

With --schema each reply has its answer as output, which the worker has checked;
--json prints it as it is, otherwise it is printed indented. A summary of --json
has at most 5,000 characters; a longer text stands whole beside it, as full_text.

Ctrl-C asks the sub-agents to hand back what they have found; a second Ctrl-C
destroys them. The exit code is 0 only when every sub-agent succeeded.

With REDIS_URL, live workers on that Redis get the work. If there are none, this
command starts a worker until the runs end, which takes other parents' work on
that Redis, too; without a key it starts none while work for another model waits.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  strictOptions(command)
    .argument("<prompt...>", "what a sub-agent should do; - reads it from standard input")
    .option(
      "--parent <id>",
      "the parent to act as; default: a new parent whose name begins with SUBAGENT_PARENT or cli",
    )
    .option("--agent <definition>", "the agent definition to use; the verb definitions lists them");
  agentOptions(command)
    .option("--system <text>", "instructions in place of the standard ones")
    .option("--max-turns <count>", "maximum model calls per sub-agent", wholeUpTo(CEILING.max_turns, 1))
    .option("--max-tokens <count>", "maximum output tokens per model call", wholeUpTo(CEILING.max_tokens, 1))
    .option(
      "--max-total-tokens <count>",
      "maximum tokens of all kinds per sub-agent",
      wholeUpTo(CEILING.max_total_tokens, 1),
    )
    .option("--max-cost-usd <usd>", "maximum USD per sub-agent", usd)
    .option("--budget-usd <usd>", "maximum USD for all sub-agents of the parent together", usd)
    .option("--max-duration <time>", "maximum running time per sub-agent, such as 90s or 5m", durationMs)
    .option(
      "--parallel <count>",
      "maximum sub-agents at a time",
      wholeUpTo(MAX_LIVE_AGENTS, 1),
      MAX_LIVE_AGENTS,
    )
    .option(
      "--timeout <time>",
      "after this time ask all sub-agents to hand back what they have, such as 5m",
      durationMs,
    )
    .option("--json", "the replies as one JSON document on standard output, and nothing else there", false)
    .addHelpText("after", HELP)
    .action(async (prompts: string[], flags: RunFlags & { strict?: boolean }) =>
      done(await run(open("warn", flags), prompts, flags)),
    );
};

/** Command-line flags. */
interface RunFlags extends PromptFlags {
  parent?: string;
  /** Name of an agent definition. */
  agent?: string;
  model?: string;
  tools?: string;
  /** Path of the output schema. */
  schema?: string;
  system?: string;
  effort?: Effort;
  taskBudget?: number;
  maxTurns?: number;
  maxTokens?: number;
  maxTotalTokens?: number;
  maxCostUsd?: number;
  budgetUsd?: number;
  maxDuration?: number;
  parallel: number;
  timeout?: number;
}

const NAME_MAX_CELLS = 40;
const NAME_MAX_CODE_POINTS = 45;
/** Number of characters of a prompt that its name is made from. */
const BEGINNING_CHARS = 1_000;

/** The flags that a spawn checks, too; here they are checked before a worker of this command could take other work. */
const AskedInput = ProfileInput.extend({ agent: DefinitionName.optional() });

/**
 * Runs the command. Throws `invalid_input` for an invalid prompt, schema or flag, and `unknown_definition`, before it starts
 * anything.
 */
async function run(context: CommandContext, prompts: readonly string[], flags: RunFlags): Promise<number> {
  const outputSchema = await readOutputSchema(flags.schema, context);
  const questions = questionsOf(await readTexts(prompts, context));
  const { maxTurns, maxTokens, maxTotalTokens, maxCostUsd, maxDuration } = flags;
  const limits: LimitsInput = {
    ...(maxTurns !== undefined && { max_turns: maxTurns }),
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    ...(maxTotalTokens !== undefined && { max_total_tokens: maxTotalTokens }),
    ...(maxCostUsd !== undefined && { max_cost_usd: maxCostUsd }),
    ...(maxDuration !== undefined && { max_duration_ms: maxDuration }),
  };
  const { agent, model, system, effort, taskBudget: task_budget } = flags;
  const tools = flags.tools?.split(",");
  const budgets = flags.budgetUsd === undefined ? undefined : { parent: { max_cost_usd: flags.budgetUsd } };
  const profile = {
    model,
    system,
    effort,
    task_budget,
    limits,
    budgets,
  };
  const parentId = flags.parent === undefined ? undefined : parentIdOf(flags.parent);
  const asked = readInput(AskedInput, { ...profile, tools, agent }, "run");
  if (asked.agent !== undefined) openDefinitions(context.config.agents, context.clock).find(asked.agent);
  const service = await startLocalService(context, "use");
  try {
    showBanner(context, service);
    return await runPrompts(context, service, questions, {
      ...flags,
      tools,
      outputSchema,
      parentId,
      profile,
    });
  } finally {
    await service.stop();
  }
}

/** Gives each prompt a unique name from its first words. Throws `invalid_input` with the number of an invalid prompt. */
export function questionsOf(prompts: readonly string[]): NamedPrompt[] {
  const [taken, counts] = [new Set<string>(), new Map<string, number>()];
  return prompts.map((prompt, index) => {
    requireText(prompt, `Prompt ${index + 1}`);
    return { name: uniqueName(prompt, taken, counts), prompt, label: lineOf(prompt) };
  });
}

/** Returns the beginning of a prompt on one line. */
function lineOf(prompt: string): string {
  return plainLine(plain(prompt.slice(0, BEGINNING_CHARS)));
}

/** Returns a name that is not `taken`, and adds it. `counts`: the next number by first words; all lower ones are taken. */
function uniqueName(prompt: string, taken: Set<string>, counts: Map<string, number>): string {
  const line = lineOf(prompt).replace(/[/\\]/g, " ");
  // Combining marks take no cell, so a limit in cells alone would not keep a name short.
  const words = cutTo([...line].slice(0, NAME_MAX_CODE_POINTS).join(""), NAME_MAX_CELLS).trim() || "prompt";
  let name = words;
  let count = counts.get(words) ?? 2;
  for (; taken.has(name); count += 1) name = `${words} ${count}`;
  counts.set(words, count);
  taken.add(name);
  return name;
}
