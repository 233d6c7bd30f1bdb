/** `completion`: prints a shell script that completes the verbs and their flags. It needs no Redis. */
import { Argument, type Command } from "commander";
import { SubagentError } from "../../shared/errors.ts";
import { type DefineCommand, EXIT } from "../command.ts";

const HELP = `
Examples:
  subagent-queue completion bash > /etc/bash_completion.d/subagent-queue
  source <(subagent-queue completion bash)
  subagent-queue completion zsh > "\${fpath[1]}/_subagent-queue"
  subagent-queue completion fish > ~/.config/fish/completions/subagent-queue.fish`;

/** A verb with the words that a shell completes. */
interface Word {
  name: string;
  says: string;
  flags: readonly { name: string; says: string; takesValue: boolean }[];
  /** Allowed words of its argument; empty: anything, including files. */
  choices: readonly string[];
}

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  command
    .addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish"]))
    .addHelpText("after", HELP)
    .action((shell: string) => {
      const render = SHELLS[shell];
      if (!command.parent || !render) throw new SubagentError("invalid_input", "Write bash, zsh or fish.");
      open("warn").output.result(render(wordsOf(command.parent)));
      done(EXIT.done);
    });
};

const SHELLS: Readonly<Record<string, (words: readonly Word[]) => string>> = {
  bash: renderBash,
  zsh: renderZsh,
  fish: renderFish,
};

/** Returns all verbs of `program` with the flags that it has now, without those that have no long form. */
function wordsOf(program: Command): Word[] {
  const words = program.commands.map((each): Word => {
    const flags = each.options.flatMap(({ long, description, required, optional }) =>
      long ? [{ name: long, says: description, takesValue: required || optional }] : [],
    );
    const help = { name: "--help", says: "show the usage", takesValue: false };
    const choices = each.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);
    return { name: each.name(), says: each.description(), flags: [...flags, help], choices };
  });
  const names = words.map(({ name }) => name);
  return [...words, { name: "help", says: "show the usage of a verb", flags: [], choices: names }];
}

function renderBash(words: readonly Word[]): string {
  const cases = words.map(({ name, flags, choices }) => {
    const long = flags.map((flag) => flag.name).join(" ");
    return `    ${name}) flags="${long}"; choices="${choices.join(" ")}";;`;
  });
  return `# bash completion for subagent-queue
_subagent_queue() {
  local word="\${COMP_WORDS[COMP_CWORD]}" flags="" choices=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${words.map(({ name }) => name).join(" ")} --help --version" -- "$word"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word"));;
    *) COMPREPLY=($(compgen -W "$choices" -- "$word"));;
  esac
}
complete -o default -F _subagent_queue subagent-queue`;
}

function renderZsh(words: readonly Word[]): string {
  const quoted = (text: string) => text.replaceAll("'", "'\\''");
  const inBrackets = (text: string) => quoted(text.replace(/[\][\\]/g, "\\$&").replaceAll(":", "\\:"));
  const verbs = words.map(({ name, says }) => `    '${name}:${quoted(says.replaceAll(":", "\\:"))}'`);
  const cases = words.map(({ name, flags, choices }) => {
    const long = flags.map((flag) => {
      const value = flag.takesValue ? ":value:" : "";
      return `'${flag.name}[${inBrackets(flag.says)}]${value}'`;
    });
    const rest = choices.length > 0 ? `'*::word:(${choices.join(" ")})'` : "'*::file:_files'";
    return `    ${name}) _arguments ${[...long, rest].join(" ")};;`;
  });
  return `#compdef subagent-queue
_subagent_queue() {
  local -a verbs=(
${verbs.join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  local called="$words[2]"
  shift words
  (( CURRENT-- ))
  case "$called" in
${cases.join("\n")}
  esac
}
compdef _subagent_queue subagent-queue`;
}

function renderFish(words: readonly Word[]): string {
  const quoted = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const line = (rest: string) => `complete -c subagent-queue ${rest}`;
  return [
    "# fish completion for subagent-queue",
    ...words.flatMap(({ name, says, flags, choices }) => {
      const after = `-n '__fish_seen_subcommand_from ${name}'`;
      return [
        line(`-f -n __fish_use_subcommand -a ${name} -d ${quoted(says)}`),
        ...flags.map((flag) => {
          const value = flag.takesValue ? " -r" : "";
          return line(`${after} -l ${flag.name.slice(2)}${value} -d ${quoted(flag.says)}`);
        }),
        ...(choices.length > 0 ? [line(`-f ${after} -a ${quoted(choices.join(" "))}`)] : []),
      ];
    }),
  ].join("\n");
}
