/** The command line's grammar: verbs, flags, help. Each verb's work stands in its own file. */
import { Command, CommanderError, InvalidArgumentError } from "commander";
import { addAgentVerbs } from "./agent-verbs.ts";
import type { AskFlags } from "./ask-all.ts";
import type { BoardFlags } from "./board.ts";
import { openCommand, type Surroundings } from "./command.ts";
import { describeError, EXIT, exitCodeOf } from "./exit-code.ts";
import { HELP, helpForAll } from "./help.ts";
import type { OfflineModelFlags } from "./offline-model.ts";
import { addOperatorVerbs } from "./operator-verbs.ts";
import type { StartFlags } from "./start.ts";
import { plain, wrap } from "./text.ts";
import type { WorkerFlags } from "./worker.ts";

const STRICT = "refuse a Redis that may lose accepted work; the default with NODE_ENV=production";
const NOT_STRICT = "warn about such a Redis and use it all the same";

/** Absent: as NODE_ENV says. */
type StrictFlag = { strict?: boolean };

/** Who speaks when something is refused. */
const SPEAKER = "subagent-queue:";

/** Parses `args` (without program and script), runs the command, and resolves with its exit code; never rejects. */
export async function runProgram(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { output, env } = surroundings;
  let code: number = EXIT.done;
  const program = createProgram(surroundings, (result) => {
    code = result;
  });
  try {
    await program.parseAsync([...args], { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    const level = env.SUBAGENT_LOG_LEVEL?.trim();
    const [sentence = "", ...rest] = describeError(error, level === "debug" || level === "trace");
    const [first = "", ...more] = linesOf(`${SPEAKER} ${plain(sentence)}`, output);
    output.note(first.replace(SPEAKER, output.style("red", SPEAKER)), ...more, ...rest.map(plain));
    return exitCodeOf(error);
  }
}

/** A sentence in lines that fit a terminal; files and pipes get it in one. */
function linesOf(sentence: string, { isLive, size }: Surroundings["output"]): string[] {
  return isLive ? wrap(sentence, size.columns - 1) : [sentence];
}

function createProgram(surroundings: Surroundings, done: (code: number) => void): Command {
  const { output, version } = surroundings;
  const program = new Command("subagent-queue")
    .description("A job queue on Redis with a pool of workers that run LLM sub-agents.")
    .version(version)
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      writeOut: (text) => output.result(text.trimEnd()),
      writeErr: (text) => output.note(text.trimEnd()),
      outputError: (text, write) =>
        write(`subagent-queue: ${text.trim().replace(/^error: /, "")} (--help shows the usage)`),
    })
    .addHelpText("after", helpForAll(output.size.columns));
  addVerbs(program, surroundings, done);
  addAgentVerbs(program, surroundings, done);
  addOperatorVerbs(program, surroundings, done);
  addServers(program, surroundings, done);
  return program;
}

/** Each verb is loaded when it is called: help and refusals need none of them. */
function addVerbs(program: Command, surroundings: Surroundings, done: (code: number) => void): void {
  program
    .command("start")
    .description("start everything here, ask three sub-agents about this directory, and stay up as a worker")
    .option("--once", "end when the replies are there", false)
    .option("--json", "the replies as one JSON document on standard output; with --once", false)
    .option("--strict", STRICT)
    .option("--no-strict", NOT_STRICT)
    .addHelpText("after", HELP.start)
    .action(async (flags: StartFlags & StrictFlag) => {
      const { start } = await import("./start.ts");
      done(await start(openCommand(surroundings, "warn", flags), flags));
    });
  program
    .command("run")
    .description("give each prompt to a sub-agent of its own and print the replies")
    .argument("<prompt...>", "what a sub-agent should do; - reads it from standard input")
    .option("--json", "the replies as one JSON document on standard output, and nothing else there", false)
    .option("--strict", STRICT)
    .option("--no-strict", NOT_STRICT)
    .addHelpText("after", HELP.run)
    .action(async (prompts: string[], flags: AskFlags & StrictFlag) => {
      const { run } = await import("./run.ts");
      done(await run(openCommand(surroundings, "warn", flags), prompts, flags));
    });
  program
    .command("worker")
    .description("join the Redis of REDIS_URL and work until stopped; the log goes to stderr as JSON lines")
    .option("--json", "the ready line as JSON", false)
    .option("--health-port <port>", "serve /healthz and /readyz there, 0 takes a free one", wholeUpTo(65_535))
    .option("--health-host <address>", "address of the health checks", "127.0.0.1")
    .option("--strict", STRICT)
    .option("--no-strict", NOT_STRICT)
    .addHelpText("after", HELP.worker)
    .action(async (flags: WorkerFlags & StrictFlag) => {
      const { worker } = await import("./worker.ts");
      done(await worker(openCommand(surroundings, "info", flags), flags));
    });
}

/** What serves HTTP until it is told to stop. */
function addServers(program: Command, surroundings: Surroundings, done: (code: number) => void): void {
  program
    .command("board")
    .description("show the queue of REDIS_URL in the browser: Bull Board, read-only, ids and states")
    .option("--host <address>", "address to listen on; whoever reaches it can read the board", "127.0.0.1")
    .option("--port <port>", "port, 0 takes a free one", wholeUpTo(65_535), 8788)
    .option("--host-name <name...>", "names, besides loopback ones, under which it may be asked", [])
    .addHelpText("after", HELP.board)
    .action(async (flags: BoardFlags) => {
      const { board } = await import("./board.ts");
      done(await board(openCommand(surroundings, "info"), flags));
    });
  program
    .command("offline-model")
    .description("serve the offline model: the Messages API answered by rule, NOT an LLM")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option("--port <port>", "port, 0 takes a free one", wholeUpTo(65_535), 8787)
    .option("--latency-ms <ms>", "time before the first byte of every answer", wholeUpTo(3_600_000), 0)
    .option("--parallel <calls>", "calls answered at a time, the others wait", wholeUpTo(10_000, 1))
    .option("--scenario <file>", "JSON scenario to play instead of answering by rule")
    .option("--ledger <file>", "append one JSON line for every request served")
    .addHelpText("after", HELP.offlineModel)
    .action(async (flags: OfflineModelFlags) => {
      const { offlineModel } = await import("./offline-model.ts");
      done(await offlineModel(openCommand(surroundings, "info"), flags));
    });
}

function wholeUpTo(max: number, min = 0): (text: string) => number {
  return (text) => {
    if (/^\d{1,10}$/.test(text) && Number(text) >= min && Number(text) <= max) return Number(text);
    throw new InvalidArgumentError(`Write a whole number from ${min} to ${max}.`);
  };
}
