/** `start`: starts all parts in one process, asks three questions about the current directory, then keeps serving. */
import { BOARD_PATH } from "../../service/board/app.ts";
import { type Config, DEFAULT_PREFIX } from "../../shared/config.ts";
import { SubagentError } from "../../shared/errors.ts";
import { whenAborted } from "../../shared/stop-signal.ts";
import { type CommandContext, type DefineCommand, EXIT, strictOptions, wholeUpTo } from "../command.ts";
import { API_PORT, type OpenedApi, openApi } from "../local/api.ts";
import { createDisposables, type Disposables } from "../local/disposables.ts";
import { type NamedPrompt, type PromptFlags, runPrompts } from "../local/fan-out.ts";
import type { RedisSource } from "../local/redis.ts";
import { type LocalService, showBanner, startLocalService } from "../local/service.ts";

const HELP = `
Examples:
  subagent-queue start             ask, print the replies, and stay up: worker, HTTP API, page and board
  subagent-queue start --once      ask, print the replies, and end
  subagent-queue start --once --json | jq '.replies[].summary'
  SUBAGENT_ROOTS=/srv/repo:ro subagent-queue start --once`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  strictOptions(command)
    .option("--once", "end when the replies are there", false)
    .option(
      "--port <port>",
      `port of the page, the API and the board; default ${API_PORT}, else a free one`,
      wholeUpTo(65_535),
    )
    .option("--json", "the replies as one JSON document on standard output; with --once", false)
    .addHelpText("after", HELP)
    .action(async (flags: StartFlags & { strict?: boolean }) =>
      done(await start(open("warn", flags), flags)),
    );
};

/** The prompts of the sub-agents; each needs its tools for the answer. */
const QUESTIONS: readonly NamedPrompt[] = [
  { name: "Testing framework", prompt: "Which testing framework does this project use?" },
  { name: "Lua scripts", prompt: "What is each Lua script for?" },
  { name: "TODO comments", prompt: "How many TODO comments are there?" },
];

/** The prompt in the printed commands. */
const PROMPT = "How many TODO comments are there?";

/** Command-line flags. */
interface StartFlags extends PromptFlags {
  /** End after the replies. */
  once: boolean;
  /** Port of the API; default: {@link API_PORT}, or a free one if that is in use. */
  port?: number;
}

/** Runs the command; resolves to the exit code. Throws `invalid_input` for --json without --once. */
async function start(context: CommandContext, { once, json, port }: StartFlags): Promise<number> {
  if (json && !once) {
    const sentence = "start --json prints one document and ends: give --once as well.";
    throw new SubagentError("invalid_input", sentence);
  }
  const disposables = createDisposables();
  try {
    const service = await startLocalService(context, "join");
    disposables.add(() => service.stop());
    const api = once ? undefined : await serveDoors(context, service, port, disposables);
    showBanner(context, service);
    const code = await runPrompts(context, service, QUESTIONS, { json });
    if (!api || code === EXIT.interrupted) return code;
    return await stayUp(context, service, api);
  } finally {
    await disposables.close();
  }
}

async function stayUp(context: CommandContext, service: LocalService, api: OpenedApi): Promise<number> {
  const { output, signal } = context;
  output.note(["", ...doorsOf(api), "", ...handingOver(context, service, api), "", "Stop it with Ctrl-C."]);
  await Promise.race([whenAborted(signal), whenAborted(service.signal)]);
  if (service.failure) throw service.failure;
  return EXIT.done;
}

/** Starts the API on `port`; without `port` on {@link API_PORT}, or on a free port if that is in use. */
async function serveDoors(
  context: CommandContext,
  { client }: LocalService,
  port: number | undefined,
  disposables: Disposables,
): Promise<OpenedApi> {
  if (port !== undefined) return openApi(context, client, { port }, disposables);
  try {
    return await openApi(context, client, { port: API_PORT }, disposables);
  } catch (error) {
    if (!(error instanceof SubagentError) || error.code !== "setup_failed") throw error;
    return openApi(context, client, { port: 0 }, disposables);
  }
}

function doorsOf({ url, needsKey }: OpenedApi): string[] {
  return [
    needsKey
      ? "The worker keeps running, and with it:"
      : "The worker keeps running, and with it, without keys, for this machine only:",
    `  Live page   ${url}/`,
    `  HTTP API    ${url}/docs`,
    `  Bull Board  ${url}${BOARD_PATH}`,
  ];
}

/** Returns commands that give work to this service from another terminal; they can be pasted. */
function handingOver({ config, command }: CommandContext, { redis }: LocalService, api: OpenedApi): string[] {
  const key = api.needsKey ? ' -H "Authorization: Bearer $KEY"' : "";
  return [
    "Hand it work from another terminal, in this directory:",
    `  curl -s '${api.url}/v1/parents/shell/tasks?wait=60'${key} -H 'Content-Type: application/json' -d '{"prompt": "${PROMPT}"}'`,
    `  ${addressing(config, redis)} ${command} run "${PROMPT}"`,
    ...(api.needsKey
      ? ["This installation needs a key: set KEY to one, or create one with subagent-queue keys create."]
      : []),
  ];
}

/**
 * Returns the variables with which another terminal reaches the same installation. For a private server that is the URL with
 * its generated password; for another server the text `"$REDIS_URL"`, so that its password is not printed.
 */
export function addressing(config: Config, redis: Pick<RedisSource, "url" | "isPrivate">): string {
  const url = redis.isPrivate ? redis.url : '"$REDIS_URL"';
  const prefix = config.prefix === DEFAULT_PREFIX ? "" : ` SUBAGENT_PREFIX=${config.prefix}`;
  return `REDIS_URL=${url}${prefix}`;
}
