/** `completion`: prints a shell script that completes verbs, their subcommands, flags and values. It needs no Redis. */
import { Argument, type Command } from "commander";
import { SubagentError } from "../../shared/errors.ts";
import { type DefineCommand, EXIT } from "../command.ts";

const HELP = `
Examples:
  subagent-queue completion bash > /etc/bash_completion.d/subagent-queue
  source <(subagent-queue completion bash)
  subagent-queue completion zsh > "\${fpath[1]}/_subagent-queue"
  subagent-queue completion fish > ~/.config/fish/completions/subagent-queue.fish`;

/** A verb or subcommand with the words that a shell completes. */
interface Word {
  name: string;
  says: string;
  flags: readonly Flag[];
  /** Allowed words of its argument; empty: anything, including files. */
  choices: readonly string[];
  subcommands: readonly Word[];
}

/** `choices`: the allowed values; empty: anything, including files. */
interface Flag {
  name: string;
  says: string;
  takesValue: boolean;
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

/** Returns all verbs of `program`, and `help`. */
function wordsOf(program: Command): Word[] {
  const words = program.commands.map(wordOf);
  const names = words.map(({ name }) => name);
  return [
    ...words,
    { name: "help", says: "show the usage of a verb", flags: [], choices: names, subcommands: [] },
  ];
}

/** Returns a verb with the flags that it has now, without those that have no long form. */
function wordOf(command: Command): Word {
  const flags = command.options.flatMap(({ long, description, required, optional, argChoices = [] }) =>
    long ? [{ name: long, says: description, takesValue: required || optional, choices: argChoices }] : [],
  );
  const help = { name: "--help", says: "show the usage", takesValue: false, choices: [] };
  return {
    name: command.name(),
    says: command.description(),
    flags: [...flags, help],
    choices: command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
    subcommands: command.commands.map(wordOf),
  };
}

/** Returns the lines of a `case` on the words before the current one, each followed by a space; they set `flags` and `choices`. */
function bashCases(word: Word, above = ""): string[] {
  const called = `${above}${word.name} `;
  const values = word.flags.filter(({ choices }) => choices.length > 0);
  const long = word.flags.map(({ name }) => name).join(" ");
  const words = [...word.choices, ...word.subcommands.map(({ name }) => name)].join(" ");
  return [
    ...word.subcommands.flatMap((each) => bashCases(each, called)),
    ...values.map(({ name, choices }) => `    "${called}"*"${name} ") choices="${choices.join(" ")}";;`),
    `    "${called}"*) flags="${long}"; choices="${words}";;`,
  ];
}

function renderBash(words: readonly Word[]): string {
  const cases = words.flatMap((word) => bashCases(word));
  return `# bash completion for subagent-queue
_subagent_queue() {
  local word="\${COMP_WORDS[COMP_CWORD]}" flags="" choices=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${words.map(({ name }) => name).join(" ")} --help --version" -- "$word"))
    return
  fi
  case "\${COMP_WORDS[*]:1:COMP_CWORD-1} " in
${cases.join("\n")}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word"));;
    *) COMPREPLY=($(compgen -W "$choices" -- "$word"));;
  esac
}
complete -o default -F _subagent_queue subagent-queue`;
}

const quotedForZsh = (text: string) => text.replaceAll("'", "'\\''");
const inBrackets = (text: string) => quotedForZsh(text.replace(/[\][\\]/g, "\\$&").replaceAll(":", "\\:"));

/** Returns the lines of a `case` on `<verb>` or `<verb> <subcommand>`. */
function zshCases(word: Word, above = ""): string[] {
  const called = above + word.name;
  const long = word.flags.map(({ name, says, takesValue, choices }) => {
    const values = choices.length > 0 ? `(${choices.join(" ")})` : "";
    return `'${name}[${inBrackets(says)}]${takesValue ? `:value:${values}` : ""}'`;
  });
  const words = [...word.choices, ...word.subcommands.map(({ name }) => name)];
  const rest = words.length > 0 ? `'*:word:(${words.join(" ")})'` : "'*:file:_files'";
  return [
    ...word.subcommands.flatMap((each) => zshCases(each, `${called} `)),
    `    "${called}"|"${called} "*) _arguments ${[...long, rest].join(" ")};;`,
  ];
}

function renderZsh(words: readonly Word[]): string {
  const verbs = words.map(({ name, says }) => `    '${name}:${quotedForZsh(says.replaceAll(":", "\\:"))}'`);
  const cases = words.flatMap((word) => zshCases(word));
  const withSubcommands = words.filter(({ subcommands }) => subcommands.length > 0).map(({ name }) => name);
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
    ${withSubcommands.join("|")})
      if (( CURRENT > 2 )); then
        called="$called $words[2]"
        shift words
        (( CURRENT-- ))
      fi;;
  esac
  case "$called" in
${cases.join("\n")}
  esac
}
compdef _subagent_queue subagent-queue
# zsh loads a file of fpath at the first completion, which it must answer.
if [[ "\${zsh_eval_context[-1]}" == loadautofunc ]]; then _subagent_queue "$@"; fi`;
}

const quotedForFish = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

/** Returns the lines for the words after a verb; `above`: the condition that its own verb was written before. */
function fishLines(word: Word, above = ""): string[] {
  const seen = `${above}__fish_seen_subcommand_from ${word.name}`;
  const after = `complete -c subagent-queue -n '${seen}'`;
  const names = word.subcommands.map(({ name }) => name).join(" ");
  return [
    ...word.flags.map(({ name, says, takesValue, choices }) => {
      const values = choices.length > 0 ? ` -f -a ${quotedForFish(choices.join(" "))}` : "";
      return `${after} -l ${name.slice(2)}${takesValue ? ` -r${values}` : ""} -d ${quotedForFish(says)}`;
    }),
    ...(word.choices.length > 0 ? [`${after} -f -a ${quotedForFish(word.choices.join(" "))}`] : []),
    ...word.subcommands.flatMap((each) => [
      `complete -c subagent-queue -f -n '${seen}; and not __fish_seen_subcommand_from ${names}' -a ${each.name} -d ${quotedForFish(each.says)}`,
      ...fishLines(each, `${seen}; and `),
    ]),
  ];
}

function renderFish(words: readonly Word[]): string {
  return [
    "# fish completion for subagent-queue",
    ...words.flatMap((word) => [
      `complete -c subagent-queue -f -n __fish_use_subcommand -a ${word.name} -d ${quotedForFish(word.says)}`,
      ...fishLines(word),
    ]),
  ].join("\n");
}
