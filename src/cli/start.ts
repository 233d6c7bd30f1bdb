/** `start`: everything up in one process, three questions about the directory it stands in, then a worker that stays. */
import { createBoard } from "../producer/http/board.ts";
import { askAll, type Question } from "./ask-all.ts";
import { renderBanner } from "./banner.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { type LocalService, startLocalService } from "./local-service.ts";
import { withoutPassword } from "./redis-source.ts";
import { whenAborted } from "./service.ts";

/** What the sub-agents are asked: enough to make each of them look for itself. */
const QUESTIONS: readonly Question[] = [
  { name: "Testing framework", prompt: "Which testing framework does this project use?" },
  { name: "Lua scripts", prompt: "What is each Lua script for?" },
  { name: "TODO comments", prompt: "How many TODO comments are there?" },
];

/** Runs the command; `once` ends it after the replies. Resolves with the exit code. */
export async function start(context: CommandContext, { once }: { once: boolean }): Promise<number> {
  const service = await startLocalService(context, true);
  try {
    showBanner(context, service);
    const code = await askAll(context, service, QUESTIONS);
    if (once || code === EXIT.interrupted) return code;
    return await stayUp(context, service);
  } finally {
    await service.stop();
  }
}

/** Prints the banner of a running service. */
export function showBanner(
  { config, output, version }: CommandContext,
  { redis, roots }: LocalService,
): void {
  const facts = { version, config, redis: redis.description, roots };
  output.note(...renderBanner(facts, output.size.columns, output.style));
}

async function stayUp(context: CommandContext, service: LocalService): Promise<number> {
  const { output, config, clock, logger } = context;
  const address = withoutPassword(service.redis.url);
  const board = createBoard({ redisUrl: service.redis.url, prefix: config.prefix, clock, logger });
  try {
    await board.start();
    output.note(
      "",
      "The worker stays up. Hand it work from another terminal:",
      `  REDIS_URL=${address} npx subagent-queue run "What does src/index.ts export?"`,
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
