/** `api`: serves all calls of a parent over HTTP, on the Redis of REDIS_URL, until a signal stops it. */
import { createClient } from "../../producer/client.ts";
import { createCallbackSender } from "../../service/agent-protocol/callback.ts";
import { SubagentError } from "../../shared/errors.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { whenAborted } from "../../shared/stop-signal.ts";
import {
  type CommandContext,
  type DefineCommand,
  EXIT,
  eachHostName,
  listenAddress,
  strictOptions,
  wholeUpTo,
} from "../command.ts";
import { API_PORT, openApi } from "../local/api.ts";
import { askWorkersAndPause, logUnusedDefinitions, lookupModel } from "../local/client.ts";
import { createDisposables } from "../local/disposables.ts";
import { requireRedisUrl } from "../local/redis.ts";

const HELP = `
Examples:
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue api
  REDIS_URL=redis://redis:6379 subagent-queue api --host 0.0.0.0 --host-name agents.internal
  curl -s 'http://127.0.0.1:8787/v1/parents/planner-7/tasks?wait=60' \\
    -H 'Content-Type: application/json' -d '{"prompt": "Which testing framework does this project use?"}'

Until the first key is made, it answers on loopback without one. Make the first with:
  subagent-queue keys create "my service"`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  strictOptions(command)
    .option(
      "--host <address>",
      "address to listen on; other than loopback only once an API key exists",
      listenAddress,
      "127.0.0.1",
    )
    .option("--port <port>", "port; 0: any free port", wholeUpTo(65_535), API_PORT)
    .option(
      "--host-name <name...>",
      "host names, besides those of loopback, that requests may use",
      eachHostName,
    )
    .option(
      "--rate <requests>",
      "maximum requests per minute and key, over all API processes",
      wholeUpTo(10_000_000, 1),
      6_000,
    )
    .option("--webhooks-anywhere", "push webhooks to private addresses and over http, too", false)
    .option(
      "--callback-url <url>",
      "LangGraph server to notify at the end of a run that one of its threads began; its key is SUBAGENT_CALLBACK_KEY",
      callbackUrl,
    )
    .option("--callback-assistant <name>", "assistant of that server that gets the message", "agent")
    .addHelpText("after", HELP)
    .action(async (flags: ApiFlags & { strict?: boolean }) => done(await api(open("info", flags), flags)));
};

/** Command-line flags. */
interface ApiFlags {
  /** Address to listen on. */
  host: string;
  /** Port; 0: a free one. */
  port: number;
  /** Allowed host names of requests besides those of loopback. */
  hostName?: string[];
  /** Maximum requests per minute and key. */
  rate: number;
  /** True: webhooks may use private addresses, and http. */
  webhooksAnywhere: boolean;
  /** URL of the LangGraph server that is notified when a run of its threads ends. */
  callbackUrl?: string;
  /** Assistant of that server that gets the message. */
  callbackAssistant: string;
}

/**
 * Runs the command until a signal stops it. Throws `invalid_config` without REDIS_URL, or if it would be open to a
 * network without keys; `setup_failed` if the port cannot be used.
 */
async function api(context: CommandContext, flags: ApiFlags): Promise<number> {
  const { config, logger, clock, output, signal } = context;
  const { prefix, prices, timing, limits, budgets, agents, workspaceRoot } = config;
  const redisUrl = requireRedisUrl(config, "the API acts on the agents of a Redis");
  const { host, port, hostName: hostNames = [], rate: requestsPerMinute } = flags;
  const disposables = createDisposables();
  try {
    const { workers } = await askWorkersAndPause(redisUrl, prefix, clock);
    const model = lookupModel(context, redisUrl, workers, disposables);
    const installation = { redisUrl, prefix, prices, timing, limits, budgets, agents, workspaceRoot };
    const client = createClient({ ...installation, model, strict: config.production, logger, clock });
    disposables.add(() => client.stop());
    logUnusedDefinitions(client, logger);
    const webhookReach = flags.webhooksAnywhere ? "any" : "public";
    const callsBack = flags.callbackUrl !== undefined;
    const reach = { host, port, hostNames, requestsPerMinute, webhookReach, callsBack } as const;
    const { url, needsKey } = await openApi(context, client, reach, disposables);
    if (flags.callbackUrl !== undefined) {
      const { callbackUrl, callbackAssistant: assistantId } = flags;
      const sender = createCallbackSender({
        client,
        url: callbackUrl,
        apiKey: config.callbackKey,
        assistantId,
        clock,
        logger,
      });
      disposables.add(() => sender.stop());
      sender.start();
    }
    const keys = needsKey ? "with keys" : "without keys, for this machine only";
    output.result(`ready: api ${url} on ${withoutPassword(redisUrl)}, ${keys}`);
    await whenAborted(signal);
    return EXIT.done;
  } finally {
    await disposables.close();
  }
}

/** Parses the URL of --callback-url. Throws `invalid_input` without the URL in its message: it may hold a password. */
function callbackUrl(text: string): string {
  const { protocol, username, password } = URL.canParse(text) ? new URL(text) : { protocol: "" };
  if (/^https?:$/.test(protocol) && !username && !password && !/[?#]/.test(text)) return text;
  const sentence =
    "--callback-url cannot be used: write http://host:port, without user, query and fragment; the server's key belongs in SUBAGENT_CALLBACK_KEY.";
  throw new SubagentError("invalid_input", sentence);
}
