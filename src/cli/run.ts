/** `run`: one sub-agent for each prompt on the command line; their replies are the output. */
import { SubagentError } from "../shared/errors.ts";
import { MESSAGE_MAX_BYTES, MessageText } from "../shared/protocol/message.ts";
import { askAll, type Question } from "./ask-all.ts";
import type { CommandContext } from "./command.ts";
import { startLocalService } from "./local-service.ts";
import { showBanner } from "./start.ts";
import { cutTo, plain, plainLine } from "./text.ts";

const NAME_MAX_CELLS = 40;
const NAME_MAX_CODE_POINTS = 45;
/** So much of a prompt is looked at for its name. */
const BEGINNING_CHARS = 1_000;
/** Stands for standard input in the place of a prompt. */
const STDIN = "-";

/** Runs the command. Throws `invalid_input` for a prompt that cannot be used, before anything is started. */
export async function run(context: CommandContext, prompts: readonly string[]): Promise<number> {
  const questions = questionsOf(await readPrompts(prompts, context.input));
  const service = await startLocalService(context, true);
  try {
    showBanner(context, service);
    return await askAll(context, service, questions);
  } finally {
    await service.stop();
  }
}

/** Prompts as questions, each with a name made from its first words. Throws `invalid_input` naming the prompt. */
export function questionsOf(prompts: readonly string[]): Question[] {
  const taken = new Set<string>();
  return prompts.map((prompt, index) => {
    const checked = MessageText.safeParse(prompt);
    if (!checked.success) {
      const problem = checked.error.issues[0]?.message ?? "it cannot be used";
      throw new SubagentError("invalid_input", `Prompt ${index + 1} is refused: ${problem}.`);
    }
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

async function readPrompts(
  prompts: readonly string[],
  input: AsyncIterable<Buffer | string>,
): Promise<readonly string[]> {
  if (!prompts.includes(STDIN)) return prompts;
  if (prompts.filter((prompt) => prompt === STDIN).length > 1) {
    throw new SubagentError("invalid_input", "Standard input can be one prompt only: give - once.");
  }
  const text = await readUpTo(input, MESSAGE_MAX_BYTES + 1);
  return prompts.map((prompt) => (prompt === STDIN ? text : prompt));
}

/** Reads text until it ends or holds at least `bytes`: more is refused anyway. */
async function readUpTo(input: AsyncIterable<Buffer | string>, bytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of input) {
    chunks.push(Buffer.from(chunk));
    size += Buffer.byteLength(chunk);
    if (size >= bytes) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}
