/** `offline-model`: serves the offline model to other processes and hosts. */
import { parseScenario, type Scenario } from "../../offline/scenario.ts";
import { createOfflineModel, OfflineModelError } from "../../offline/server.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { whenAborted } from "../../shared/stop-signal.ts";
import { type CommandContext, type DefineCommand, EXIT, listenAddress, wholeUpTo } from "../command.ts";
import { readTextFile, shownPath } from "../local/text-file.ts";
import { OFFLINE_WARNING } from "../terminal/banner.ts";

const HELP = `
Examples:
  subagent-queue offline-model
  ANTHROPIC_BASE_URL=http://127.0.0.1:8789 subagent-queue start --once
  subagent-queue offline-model --scenario slow.json --latency-ms 200 --ledger served.jsonl`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  command
    .option("--host <address>", "address to listen on", listenAddress, "127.0.0.1")
    .option("--port <port>", "port; 0: any free port", wholeUpTo(65_535), 8789)
    .option("--latency-ms <ms>", "time before the first byte of every answer", wholeUpTo(3_600_000), 0)
    .option("--parallel <calls>", "maximum calls answered at a time; others wait", wholeUpTo(10_000, 1))
    .option(
      "--scenario <file>",
      "JSON scenario to play instead of answering by rule; its form: docs/operations.md",
    )
    .option("--ledger <file>", "append one JSON line for every request served")
    .addHelpText("after", HELP)
    .action(async (flags: OfflineModelFlags) => done(await offlineModel(open("info"), flags)));
};

/** Command-line flags. */
interface OfflineModelFlags {
  host: string;
  port: number;
  latencyMs: number;
  /** Maximum calls answered at a time; default: no limit. */
  parallel?: number;
  /** Path of a scenario to play. */
  scenario?: string;
  /** Path of the file to which the ledger is appended. */
  ledger?: string;
}

const NO_LEDGER = "--ledger cannot be used: write the path of a file.";

/**
 * Runs the command until a signal stops it. Throws `invalid_input` for the scenario and an empty path of the ledger,
 * `setup_failed` for the server.
 */
async function offlineModel(context: CommandContext, flags: OfflineModelFlags): Promise<number> {
  const { host, port, latencyMs, parallel } = flags;
  const scenario = flags.scenario === undefined ? undefined : await readScenario(flags.scenario, context);
  if (flags.ledger === "") throw new SubagentError("invalid_input", NO_LEDGER);
  const server = createOfflineModel({ host, port, latencyMs, parallel, scenario, ledgerPath: flags.ledger });
  try {
    await server.start();
    context.output.result([warningOf(flags), `ready: ANTHROPIC_BASE_URL=${server.url}`]);
    await whenAborted(context.signal);
    return EXIT.done;
  } catch (error) {
    if (error instanceof OfflineModelError) throw new SubagentError("setup_failed", error.message, {}, error);
    throw error;
  } finally {
    await server.stop();
  }
}

/** Returns what answers instead of an LLM. */
function warningOf({ scenario }: OfflineModelFlags): string {
  return scenario === undefined
    ? OFFLINE_WARNING
    : `offline model: plays ${shownPath(scenario)}, NOT an LLM; set ANTHROPIC_API_KEY for a real one`;
}

async function readScenario(path: string, context: CommandContext): Promise<Scenario> {
  const what = `The scenario ${shownPath(path)}`;
  const form = { refused: `${what} cannot be played`, wants: "a scenario", maxMegabytes: 100 };
  const text = await readTextFile(path, context, form);
  try {
    return parseScenario(JSON.parse(text), what);
  } catch (error) {
    const problem = error instanceof SyntaxError ? `${form.refused}: ${messageOf(error)}.` : messageOf(error);
    throw new SubagentError("invalid_input", problem);
  }
}
