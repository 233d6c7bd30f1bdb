/** `profile`: registers or shows the settings that all agents of a parent inherit, whatever interface spawns them. */
import { ProfileInput } from "../../producer/input.ts";
import type { ProfileView } from "../../producer/registered-profile.ts";
import { SubagentError } from "../../shared/errors.ts";
import { isJsonObject } from "../../shared/protocol/content.ts";
import { jsonIn } from "../../shared/protocol/text.ts";
import { type ActingFlags, actAsParent, actingOptions, type ParentSession } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { readTextFile, readTextInput, shownPath } from "../local/text-file.ts";
import { plain, toJsonLine, wrap } from "../terminal/text.ts";

const HELP_COLUMNS = 80;
const HELP = `
Examples:
  subagent-queue profile set profile.json --parent planner-7
  echo '{"tools":["Read","Grep"],"limits":{"max_turns":10}}' | subagent-queue profile set -
  subagent-queue profile show --json

${wrap(`A profile may name ${Object.keys(ProfileInput.shape).join(", ")}.`, HELP_COLUMNS).join("\n")}
A spawn that asks for more is refused. Live agents keep the profile they began with.`;

const SET_HELP = `
Examples:
  subagent-queue profile set profile.json --parent planner-7
  echo '{"tools":["Read","Grep"],"limits":{"max_turns":10}}' | subagent-queue profile set -

subagent-queue profile --help names the fields of a profile.`;

const SHOW_HELP = `
Examples:
  subagent-queue profile show --parent planner-7
  subagent-queue profile show --json | jq .profile`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  const act = (flags: ActingFlags, work: (acting: ParentSession) => Promise<void>) =>
    actAsParent(open("warn"), "profile", flags, async (acting) => {
      await work(acting);
      return EXIT.done;
    }).then(done);
  actingOptions(command.command("set <file>").description("register the JSON of a file; - is standard input"))
    .addHelpText("after", SET_HELP)
    .action((file: string, flags: ActingFlags) =>
      act(flags, async ({ parent, context }) => {
        const set = await parent.register(await readProfile(file, context));
        const words = `version ${set.version}${set.changed ? "" : ", as before"}`;
        context.output.result(flags.json ? toJsonLine(set) : words);
      }),
    );
  actingOptions(command.command("show").description("show the registered profile and its version"))
    .addHelpText("after", SHOW_HELP)
    .action((flags: ActingFlags) =>
      act(flags, async ({ parent, context: { output } }) => {
        const view = await parent.profile();
        output.result(flags.json ? toJsonLine(view) : inWords(view));
      }),
    );
  command.addHelpText("after", HELP);
};

function inWords({ version, registered_at, profile }: ProfileView): string {
  if (version === 0) return "nothing is registered";
  return `version ${version}, ${registered_at}\n${plain(JSON.stringify(profile, undefined, 2))}`;
}

/** Reads a profile. Throws `invalid_input` if the file cannot be read or has no JSON object; the parent checks its fields. */
async function readProfile(file: string, context: CommandContext): Promise<object> {
  const refused = `The profile ${shownPath(file)} cannot be used`;
  const form = { refused, wants: "a JSON object", maxMegabytes: 1 };
  const text = await (file === "-" ? readTextInput(context, form) : readTextFile(file, context, form));
  const profile: unknown = jsonIn(text);
  if (isJsonObject(profile)) return profile;
  throw new SubagentError(
    "invalid_input",
    'The profile is no JSON object: write one, such as {"limits":{}}.',
  );
}
