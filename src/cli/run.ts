/** `run`: one sub-agent for each prompt on the command line; their replies are the output. */
import { type AskFlags, askAll, type Question } from "./ask-all.ts";
import type { CommandContext } from "./command.ts";
import { startLocalService } from "./local-service.ts";
import { readTexts, requireText } from "./prompt-input.ts";
import { showBanner } from "./start.ts";
import { cutTo, plain, plainLine } from "./text.ts";

const NAME_MAX_CELLS = 40;
const NAME_MAX_CODE_POINTS = 45;
/** So much of a prompt is looked at for its name. */
const BEGINNING_CHARS = 1_000;

/** Runs the command. Throws `invalid_input` for a prompt that cannot be used, before anything is started. */
export async function run(
  context: CommandContext,
  prompts: readonly string[],
  flags: AskFlags,
): Promise<number> {
  const questions = questionsOf(await readTexts(prompts, context.input));
  const service = await startLocalService(context, "use");
  try {
    showBanner(context, service);
    return await askAll(context, service, questions, flags);
  } finally {
    await service.stop();
  }
}

/** Prompts as questions, each with a name made from its first words. Throws `invalid_input` naming the prompt. */
export function questionsOf(prompts: readonly string[]): Question[] {
  const taken = new Set<string>();
  return prompts.map((prompt, index) => {
    requireText(prompt, `Prompt ${index + 1}`);
    return { name: uniqueName(prompt, taken), prompt };
  });
}

function uniqueName(prompt: string, taken: Set<string>): string {
  const line = plainLine(plain(prompt.slice(0, BEGINNING_CHARS)).replace(/[/\\]/g, " "));
  // Marks take no cell, so cells alone would not keep a name short.
  const words = cutTo([...line].slice(0, NAME_MAX_CODE_POINTS).join(""), NAME_MAX_CELLS).trim() || "prompt";
  let name = words;
  for (let count = 2; taken.has(name); count += 1) name = `${words} ${count}`;
  taken.add(name);
  return name;
}
