/** `board`: shows the queue of REDIS_URL in the browser, read-only, until a signal stops it. */
import { type BoardOptions, createBoard } from "../../service/board/board.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { whenAborted } from "../../shared/stop-signal.ts";
import {
  type CommandContext,
  type DefineCommand,
  EXIT,
  eachHostName,
  listenAddress,
  wholeUpTo,
} from "../command.ts";
import { namingRedis, requireRedisUrl } from "../local/redis.ts";

const HELP = `
Examples:
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue board
  REDIS_URL=redis://redis:6379 subagent-queue board --host 0.0.0.0 --host-name board.internal`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  command
    .option(
      "--host <address>",
      "address to listen on; everyone who reaches it can read the board",
      listenAddress,
      "127.0.0.1",
    )
    .option("--port <port>", "port; 0: any free port", wholeUpTo(65_535), 8788)
    .option(
      "--host-name <name...>",
      "host names, besides those of loopback, that requests may use",
      eachHostName,
      [],
    )
    .addHelpText("after", HELP)
    .action(async (flags: BoardFlags) => done(await board(open("info"), flags)));
};

/** Command-line flags. */
interface BoardFlags extends Required<Pick<BoardOptions, "host" | "port">> {
  /** Allowed host names of requests besides those of loopback. */
  hostName: string[];
}

/**
 * Runs the command until a signal stops it. Throws `invalid_config` without REDIS_URL and where Redis refuses it,
 * `setup_failed` for the port.
 */
async function board(context: CommandContext, flags: BoardFlags): Promise<number> {
  const { config, logger, clock, output, signal } = context;
  const { prefix } = config;
  const redisUrl = requireRedisUrl(config, "the board shows the queue of a Redis");
  const { host, port, hostName: hostNames } = flags;
  const server = createBoard({ redisUrl, prefix, host, port, hostNames, clock, logger });
  try {
    await server.start().catch((error: unknown) => {
      throw namingRedis(redisUrl, error);
    });
    output.result(`ready: board ${server.url} on ${withoutPassword(redisUrl)}, read-only`);
    await whenAborted(signal);
    return EXIT.done;
  } finally {
    await server.stop();
  }
}
