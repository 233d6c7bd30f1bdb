/** The command line's grammar: verbs, flags, help. Each verb's work stands in its own file. */
import { Command, CommanderError, InvalidArgumentError } from "commander";
import { openCommand, type Surroundings } from "./command.ts";
import { describeError, EXIT, exitCodeOf } from "./exit-code.ts";
import { type OfflineModelFlags, offlineModel } from "./offline-model.ts";
import { run } from "./run.ts";
import { start } from "./start.ts";
import { plain } from "./text.ts";
import { worker } from "./worker.ts";

const EXIT_CODES = `
Exit codes: 0 done · 1 a run did not succeed · 2 wrong usage or input · 3 environment, Redis or
configuration · 130 interrupted. Environment variables: see .env.example in the package.`;

const EXAMPLES = {
  all: `
Examples:
  subagent-queue start --once
  subagent-queue run "Which testing framework does this project use?"
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue worker
${EXIT_CODES}`,
  start: `
Examples:
  subagent-queue start             ask, print the replies, and stay up as a worker
  subagent-queue start --once      ask, print the replies, and end
  SUBAGENT_ROOTS=/srv/repo:ro subagent-queue start --once`,
  run: `
Examples:
  subagent-queue run "How many TODO comments are there?"
  subagent-queue run "Review src/index.ts" "Review src/server.ts"
  cat question.txt | subagent-queue run -`,
  worker: `
Examples:
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue worker
  REDIS_URL=rediss://user:password@redis.example.org SUBAGENT_CONCURRENCY=200 subagent-queue worker`,
  offlineModel: `
Examples:
  subagent-queue offline-model --port 8787
  ANTHROPIC_BASE_URL=http://127.0.0.1:8787 subagent-queue start --once
  subagent-queue offline-model --scenario slow.json --latency-ms 200 --ledger served.jsonl`,
};

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
    output.note(`${output.style("red", "subagent-queue:")} ${plain(sentence)}`, ...rest.map(plain));
    return exitCodeOf(error);
  }
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
    .addHelpText("after", EXAMPLES.all);
  program
    .command("start")
    .description("start everything here, ask three sub-agents about this directory, and stay up as a worker")
    .option("--once", "end when the replies are there", false)
    .addHelpText("after", EXAMPLES.start)
    .action(async (flags: { once: boolean }) => done(await start(openCommand(surroundings, "warn"), flags)));
  program
    .command("run")
    .description("give each prompt to a sub-agent of its own and print the replies")
    .argument("<prompt...>", "what a sub-agent should do; - reads it from standard input")
    .addHelpText("after", EXAMPLES.run)
    .action(async (prompts: string[]) => done(await run(openCommand(surroundings, "warn"), prompts)));
  program
    .command("worker")
    .description("join the Redis of REDIS_URL and work until stopped; the log goes to stderr as JSON lines")
    .addHelpText("after", EXAMPLES.worker)
    .action(async () => done(await worker(openCommand(surroundings, "info"))));
  program
    .command("offline-model")
    .description("serve the offline model: the Messages API answered by rule, NOT an LLM")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option("--port <port>", "port, 0 takes a free one", wholeUpTo(65_535), 8787)
    .option("--latency-ms <ms>", "time before the first byte of every answer", wholeUpTo(3_600_000), 0)
    .option("--scenario <file>", "JSON scenario to play instead of answering by rule")
    .option("--ledger <file>", "append one JSON line for every request served")
    .addHelpText("after", EXAMPLES.offlineModel)
    .action(async (flags: OfflineModelFlags) =>
      done(await offlineModel(openCommand(surroundings, "info"), flags)),
    );
  return program;
}

function wholeUpTo(max: number): (text: string) => number {
  return (text) => {
    if (/^\d{1,10}$/.test(text) && Number(text) <= max) return Number(text);
    throw new InvalidArgumentError(`Write a whole number from 0 to ${max}.`);
  };
}
