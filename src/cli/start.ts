/** `start`: everything up in one process, three questions about the directory it stands in, then a worker that stays. */
import { createBoard } from "../producer/http/board.ts";
import type { Config } from "../shared/config.ts";
import { SubagentError } from "../shared/errors.ts";
import { DEFAULT_PREFIX } from "../shared/variables.ts";
import { type AskFlags, askAll, type Question } from "./ask-all.ts";
import { renderBanner } from "./banner.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { type LocalService, startLocalService } from "./local-service.ts";
import { type RedisSource, withoutPassword } from "./redis-source.ts";
import { whenAborted } from "./service.ts";

/** What the sub-agents are asked: enough to make each of them look for itself. */
const QUESTIONS: readonly Question[] = [
  { name: "Testing framework", prompt: "Which testing framework does this project use?" },
  { name: "Lua scripts", prompt: "What is each Lua script for?" },
  { name: "TODO comments", prompt: "How many TODO comments are there?" },
];

/** What the command line says. */
export interface StartFlags extends AskFlags {
  /** End after the replies. */
  once: boolean;
}

/** Runs the command. Resolves with the exit code. Throws `invalid_input` for --json without --once. */
export async function start(context: CommandContext, { once, json }: StartFlags): Promise<number> {
  if (json && !once) {
    const sentence = "start --json prints one document and ends: give --once as well.";
    throw new SubagentError("invalid_input", sentence);
  }
  const service = await startLocalService(context, "join");
  try {
    showBanner(context, service);
    const code = await askAll(context, service, QUESTIONS, { json });
    if (once || code === EXIT.interrupted) return code;
    return await stayUp(context, service);
  } finally {
    await service.stop();
  }
}

/** Prints the banner of a running service. */
export function showBanner(
  { config, output, version }: CommandContext,
  { redis, roots, workers, model }: LocalService,
): void {
  const others = workers.length > 0 ? { workers, on: withoutPassword(redis.url), model } : undefined;
  const facts = { version, config, redis: redis.description, roots, ...(others && { others }) };
  output.note(...renderBanner(facts, output.size.columns, output.style));
}

async function stayUp(context: CommandContext, service: LocalService): Promise<number> {
  const { output, config, clock, logger } = context;
  const board = createBoard({ redisUrl: service.redis.url, prefix: config.prefix, clock, logger });
  try {
    await board.start();
    output.note(
      "",
      "The worker stays up. Hand it work from another terminal:",
      `  ${addressing(config, service.redis)} npx subagent-queue run "What does src/index.ts export?"`,
      `Watch the queue: ${board.url}`,
      "Stop it with Ctrl-C.",
    );
    await whenAborted(service.signal);
  } finally {
    await board.stop();
  }
  if (service.lost) throw service.lost;
  return EXIT.done;
}

/**
 * The variables with which another terminal reaches the same installation. A server of ours is named with the password
 * that it was given; of somebody else's, the address stays where it was written.
 */
export function addressing(config: Config, redis: Pick<RedisSource, "url" | "isPrivate">): string {
  const url = redis.isPrivate ? redis.url : '"$REDIS_URL"';
  const prefix = config.prefix === DEFAULT_PREFIX ? "" : ` SUBAGENT_PREFIX=${config.prefix}`;
  return `REDIS_URL=${url}${prefix}`;
}
