/** The command line: the list of verbs, the help for all of them, and the output of errors. */
import { Command, CommanderError } from "commander";
import { EXPECTED } from "../shared/config.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import {
  type DefineCommand,
  describeError,
  EXIT,
  exitCodeOf,
  openCommand,
  type ProgramContext,
} from "./command.ts";
import { pasteable } from "./shell-command.ts";
import { escaped, lineCells, plain, wrap } from "./terminal/text.ts";

/** A verb in the list; `seesAll`: all other verbs are loaded with it, with their flags. */
interface ListedCommand {
  says: string;
  seesAll?: boolean;
  load(): Promise<{ verb: DefineCommand }>;
}

/** Each verb by its name: its line in the help, and its file, which is loaded when the verb is called. */
const COMMANDS: Readonly<Record<string, ListedCommand>> = {
  start: {
    says: "start everything here, ask three sub-agents about this directory, and stay up: worker, HTTP API, page and board",
    load: () => import("./verbs/start.ts"),
  },
  run: {
    says: "give each prompt to a sub-agent of its own and print the replies",
    load: () => import("./verbs/run.ts"),
  },
  worker: {
    says: "join the Redis of REDIS_URL and work until stopped; the log goes to stderr as JSON lines",
    load: () => import("./verbs/worker.ts"),
  },
  spawn: {
    says: "create an agent that waits for messages, and print its id",
    load: () => import("./verbs/spawn.ts"),
  },
  send: { says: "give an agent a message", load: () => import("./verbs/send.ts") },
  continue: {
    says: "spawn a new agent that continues the conversation of an ended one",
    load: () => import("./verbs/continue.ts"),
  },
  definitions: {
    says: "list the agent definitions for --agent of run and spawn, and files that cannot be used",
    load: () => import("./verbs/definitions.ts"),
  },
  answer: { says: "give an agent the answer that it waits for", load: () => import("./verbs/answer.ts") },
  finish: {
    says: "ask an agent to hand back what it has found so far",
    load: () => import("./verbs/finish.ts"),
  },
  destroy: { says: "end an agent at once", load: () => import("./verbs/destroy.ts") },
  ps: {
    says: "show every parent: what runs, what waits, what was spent today",
    load: () => import("./verbs/ps.ts"),
  },
  show: {
    says: "show one agent: prompt, timeline, reply and files",
    load: () => import("./verbs/show.ts"),
  },
  logs: {
    says: "print what the agents did, event by event; --follow goes on",
    load: () => import("./verbs/logs.ts"),
  },
  mcp: {
    says: "serve a parent's tools to an MCP client over standard input and output",
    load: () => import("./verbs/mcp.ts"),
  },
  schedule: {
    says: "create, list, pause, resume and remove tasks that begin at set times",
    load: () => import("./verbs/schedule.ts"),
  },
  list: { says: "show the live agents", load: () => import("./verbs/list.ts") },
  replies: {
    says: "print the unacked replies, questions and messages of the agents",
    load: () => import("./verbs/replies.ts"),
  },
  watch: {
    says: "show the live agents at work, until Ctrl-C; ends none of them",
    load: () => import("./verbs/watch.ts"),
  },
  usage: {
    says: "show tokens and cost of the agents' runs, in whole days (UTC)",
    load: () => import("./verbs/usage.ts"),
  },
  pause: {
    says: "stop spending now: no worker begins a model call or takes a run until resume",
    load: () => import("./verbs/pause.ts"),
  },
  resume: { says: "go on after pause, at once", load: () => import("./verbs/resume.ts") },
  doctor: {
    says: "examine the live installation: what is stuck, leaked, lost or misconfigured",
    load: () => import("./verbs/doctor.ts"),
  },
  board: {
    says: "show the queue of REDIS_URL in the browser: Bull Board, read-only, ids and states",
    load: () => import("./verbs/board.ts"),
  },
  api: {
    says: "serve every call of a parent over HTTP, for programs in any language",
    load: () => import("./verbs/api.ts"),
  },
  profile: {
    says: "register or show the profile that the agents of a parent inherit",
    load: () => import("./verbs/profile.ts"),
  },
  webhook: {
    says: "set the URL to which the replies of a parent are pushed",
    load: () => import("./verbs/webhook.ts"),
  },
  keys: {
    says: "create, list, rotate and revoke the keys of the API",
    load: () => import("./verbs/keys.ts"),
  },
  "offline-model": {
    says: "serve the offline model: the Messages API answered by rule, NOT an LLM",
    load: () => import("./verbs/offline-model.ts"),
  },
  completion: {
    says: "print the completion script for bash, zsh or fish",
    seesAll: true,
    load: () => import("./verbs/completion.ts"),
  },
};

/** Prefix of every error line. */
const SPEAKER = "subagent-queue:";

/**
 * Parses `args` (without program and script), runs the command, and resolves with its exit code, or with
 * {@link EXIT.environment} if standard output lost results of a command that had succeeded; never rejects.
 */
export async function runProgram(args: readonly string[], context: ProgramContext): Promise<number> {
  const code = await runCommand(args, context);
  const problem = await context.output.lost();
  if (!problem) return code;
  const sentence = `Standard output cannot be written (${messageOf(problem)}), so results are lost; what the command did stays done: make room, or name another file.`;
  const lost = printError(new SubagentError("setup_failed", sentence, {}, problem), context);
  return code === EXIT.done ? lost : code;
}

async function runCommand(args: readonly string[], context: ProgramContext): Promise<number> {
  let code: number = EXIT.done;
  const program = createProgram(context);
  try {
    const called = nameCalled(args);
    if (called) await addVerb(program, called, context, (result) => (code = result));
    await program.parseAsync(withoutLostHelp(program, args), { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    if (context.signal.aborted && error === context.signal.reason) return EXIT.interrupted;
    return printError(error, context);
  }
}

/** Prints the error's sentence on stderr and returns its exit code. */
function printError(error: unknown, { output, env }: ProgramContext): number {
  const level = env.SUBAGENT_LOG_LEVEL?.trim();
  const [sentence = "", ...rest] = describeError(error, level === "debug" || level === "trace");
  output.note([`${output.style("red", SPEAKER)} ${plain(sentence)}`, ...rest.map(plain)]);
  return exitCodeOf(error);
}

/** Wraps the paragraphs of a help text that are too wide for the terminal; examples and other indented lines stay. */
function inWidth(text: string, columns: number | undefined): string {
  if (columns === undefined) return text;
  return text.replace(/^\S.*(?:\n\S.*)*/gm, (paragraph) => {
    const isTooWide = paragraph.split("\n").some((line) => line.length >= columns);
    return isTooWide ? wrap(paragraph.replaceAll("\n", " "), lineCells(columns)).join("\n") : paragraph;
  });
}

function createProgram({ output, version, command }: ProgramContext): Command {
  const program = new Command("subagent-queue")
    .description("A job queue on Redis with a pool of workers that run LLM sub-agents.")
    .version(version)
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      writeOut: (text) => output.result(inWidth(pasteable(text.trimEnd(), command), output.resultColumns)),
      writeErr: (text) => output.note(text.trimEnd()),
      outputError(text, write) {
        const problem = escaped(text)
          .trim()
          .replace(/^error: /, "")
          .replace("\n(Did", " (did");
        write(`${SPEAKER} ${problem} (--help shows the usage)`);
      },
    })
    .addHelpText("after", () => helpForAll(output.size.columns));
  for (const [name, { says }] of Object.entries(COMMANDS)) program.command(name).description(says);
  return program;
}

/** Returns the verb that `args` name, directly or as `help <verb>`. */
function nameCalled(args: readonly string[]): string | undefined {
  const [first, second] = args.filter((arg) => !arg.startsWith("-"));
  return first === "help" ? second : first;
}

/**
 * Returns `args` without a `help` whose verb does not exist, as in `help nope` or `keys help nope`: commander then refuses
 * the verb by its name, and does not print the whole help. `help keys create` becomes `keys help create`, as commander reads it.
 */
function withoutLostHelp(program: Command, args: readonly string[]): string[] {
  const [first, parent = "", sub] = args;
  const hasSubcommands = (verbOf(program, parent)?.commands.length ?? 0) > 0;
  if (first === "help" && hasSubcommands && sub?.startsWith("-") === false)
    return withoutLostHelp(program, [parent, first, ...args.slice(2)]);
  const at = args.indexOf("help");
  const named = at < 0 ? undefined : args[at + 1];
  const above = args.slice(0, Math.max(0, at)).reduce<Command | undefined>(verbOf, program);
  const isLost = named?.startsWith("-") === false && above?.commands.length && !verbOf(above, named);
  return isLost ? args.toSpliced(at, 1) : [...args];
}

function verbOf(command: Command | undefined, name: string): Command | undefined {
  return command?.commands.find((each) => each.name() === name);
}

async function addVerb(
  program: Command,
  name: string,
  context: ProgramContext,
  done: (code: number) => void,
): Promise<void> {
  const command = verbOf(program, name);
  const known = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command || !known) return;
  if (known.seesAll) {
    const others = Object.keys(COMMANDS).filter((other) => COMMANDS[other]?.seesAll !== true);
    for (const other of others) await addVerb(program, other, context, done);
  }
  const { verb } = await known.load();
  verb(command, (level, options) => openCommand(context, level, options), done);
}

const NAME_CELLS = 27;

/** Returns the help text below the list of verbs, for a terminal of `columns` cells. */
function helpForAll(columns: number): string {
  return `
Examples:
  subagent-queue start --once
  subagent-queue run "Which testing framework does this project use?"
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue worker

The verbs that name no other parent act for the parent "cli", or that of --parent, on the
Redis of REDIS_URL:
  export REDIS_URL=redis://127.0.0.1:6379
  subagent-queue spawn "Data Collector" --prompt "List the Lua scripts"
  subagent-queue replies --follow --ack

Environment variables, all optional, all checked before anything starts:
${variables(columns).join("\n")}

Exit codes:
  0    done
  1    a run did not succeed
  2    the command line or its input cannot be used
  3    environment, Redis or configuration
  130  interrupted`;
}

function variables(columns: number): string[] {
  return Object.entries(EXPECTED).flatMap(([name, form]) => {
    const [first = "", ...rest] = wrap(form, columns - NAME_CELLS - 3);
    const below = " ".repeat(NAME_CELLS + 2);
    return [`  ${name.padEnd(NAME_CELLS)}${first}`, ...rest.map((line) => below + line)];
  });
}
