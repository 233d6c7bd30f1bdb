/** `definitions`: lists the agent definitions for a spawn, and unusable files. Needs no Redis. */
import { openDefinitions } from "../../producer/definitions/folders.ts";
import type { FoundDefinition } from "../../shared/protocol/definition.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { hanging, lineCells, plainLine, toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  subagent-queue definitions
  SUBAGENT_AGENTS=./agents subagent-queue definitions --json
  subagent-queue spawn "Look around" --agent explorer

Files are markdown with front matter (name, description, tools, model, …), in
the form that other agent programs read. The exit code is 3 when one cannot be used.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  command
    .option("--json", "the result as JSON", false)
    .addHelpText("after", HELP)
    .action((flags: { json: boolean }) => done(definitions(open("warn"), flags)));
};

function definitions({ config, clock, output }: CommandContext, { json }: { json: boolean }): number {
  const found = openDefinitions(config.agents, clock).list();
  if (json) {
    const listed = found.definitions.map(({ system: _, ...definition }) => definition);
    output.result(toJsonLine({ definitions: listed, problems: found.problems }));
  } else {
    const width = lineCells(output.resultColumns);
    output.result(found.definitions.flatMap((each) => linesOf(each, width)));
    for (const { file, line, message } of found.problems)
      output.note(`${plainLine(file)}:${line}: ${plainLine(message)}`);
  }
  return found.problems.length > 0 ? EXIT.environment : EXIT.done;
}

function linesOf({ name, description, tools, model, file }: FoundDefinition, width: number): string[] {
  const facts = [tools ? tools.join(", ") : "all tools", ...(model ? [model] : []), file ?? "shipped"];
  const line = `${name}  (${facts.map(plainLine).join("; ")})  ${plainLine(description)}`;
  const [first = "", ...rest] = hanging("  ", line, width);
  return [first.trimStart(), ...rest];
}
