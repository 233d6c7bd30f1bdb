/** `board`: the queue of REDIS_URL in the browser, read-only, until it is told to stop. */
import { type BoardOptions, createBoard } from "../producer/http/board.ts";
import { SubagentError } from "../shared/errors.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { withoutPassword } from "./redis-source.ts";
import { whenAborted } from "./service.ts";

/** What the command line says. */
export interface BoardFlags extends Required<Pick<BoardOptions, "host" | "port">> {
  /** Names, besides loopback ones, under which it may be asked. */
  hostName: string[];
}

/** Runs the command until it is told to stop. Throws `invalid_config` without REDIS_URL, `setup_failed` for the port. */
export async function board(context: CommandContext, flags: BoardFlags): Promise<number> {
  const { config, logger, clock, output, signal } = context;
  const { redisUrl, prefix } = config;
  if (redisUrl === undefined) {
    const sentence = "REDIS_URL is not set: the board shows the queue of a Redis, e.g. redis://host:6379.";
    throw new SubagentError("invalid_config", sentence);
  }
  const { host, port, hostName: hostNames } = flags;
  const server = createBoard({ redisUrl, prefix, host, port, hostNames, clock, logger });
  try {
    await server.start();
    output.result(`ready: board ${server.url} on ${withoutPassword(redisUrl)}, read-only`);
    await whenAborted(signal);
    return EXIT.done;
  } finally {
    await server.stop();
  }
}
