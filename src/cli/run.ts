/** `run`: one sub-agent for each prompt on the command line; their replies are the output. */
import { type AskFlags, askAll, type Question } from "./ask-all.ts";
import type { CommandContext } from "./command.ts";
import { liveWorkers } from "./live-workers.ts";
import { type LocalService, startLocalService } from "./local-service.ts";
import { readTexts, requireText } from "./prompt-input.ts";
import { withoutPassword } from "./redis-source.ts";
import { showBanner } from "./start.ts";
import { cutTo, plain, plainLine } from "./text.ts";

const LOOK_FOR_WORKERS_MS = 5_000;
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
  const asking = new AbortController();
  try {
    showBanner(context, service);
    void tellWhenDeserted(context, service, asking.signal);
    return await askAll(context, service, questions, flags);
  } finally {
    asking.abort();
    await service.stop();
  }
}

/** Says so whenever the last of the live workers that should do the work has gone; a worker that joins takes it. */
async function tellWhenDeserted(
  { config, clock, output }: CommandContext,
  { workers, redis }: LocalService,
  signal: AbortSignal,
): Promise<void> {
  if (workers.length === 0) return;
  let isDeserted = false;
  for (;;) {
    await clock.sleep(LOOK_FOR_WORKERS_MS, signal);
    if (signal.aborted) return;
    // A Redis that is away says nothing about its workers.
    const live = await liveWorkers(redis.url, config.prefix, clock).catch(() => workers);
    if (live.length === 0 && !isDeserted && !signal.aborted) {
      const place = withoutPassword(redis.url);
      output.note(
        `No worker is live on ${place} any more: the work waits until one joins (subagent-queue worker).`,
      );
    }
    isDeserted = live.length === 0;
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
