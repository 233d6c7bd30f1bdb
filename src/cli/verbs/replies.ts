/** `replies`: what has come from a parent's agents and is not acked yet, and with --follow what comes. */
import type { ReceivedEntry } from "../../producer/replies/parent-channel.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { ChannelEntry } from "../../shared/protocol/reply.ts";
import { type ActingFlags, actAsParent, actingOptions, type ParentSession } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT } from "../command.ts";
import { formatPlural } from "../terminal/numbers.ts";
import { renderEntry } from "../terminal/reply.ts";
import { toJsonLine } from "../terminal/text.ts";

/** Time between two tries of an ack while Redis is away. */
export const ACK_RETRY_MS = 1_000;

const HELP = `
Examples:
  subagent-queue replies                        look, and leave everything where it is
  subagent-queue replies --ack                  print and take out
  subagent-queue replies --follow --ack --json  one JSON line for each entry, until Ctrl-C`;

/** Its arguments, flags and action. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .option("--follow", "keep printing new entries, until Ctrl-C", false)
    .option("--ack", "acknowledge the printed entries: they are not printed again", false)
    .addHelpText("after", HELP)
    .action(async (flags: RepliesFlags) => done(await replies(open("warn"), flags)));
};

/** What the command line says. */
interface RepliesFlags extends ActingFlags {
  /** Go on until told to stop. */
  follow: boolean;
  /** Take out of the channel what was printed. */
  ack: boolean;
}

/** Runs the command. An entry is acked after it was printed, and not at all when the output has no reader any more. */
function replies(context: CommandContext, flags: RepliesFlags): Promise<number> {
  return actAsParent(context, "replies", flags, (acting) =>
    flags.follow ? follow(acting, flags) : printAll(acting, flags),
  );
}

async function follow({ context, parent }: ParentSession, flags: RepliesFlags): Promise<number> {
  const { output, signal } = context;
  for await (const { ack, ...entry } of parent.replies({ signal })) {
    output.result(...(flags.json ? [toJsonLine(entry)] : linesOf(context, entry)));
    if (!(await output.delivered())) return EXIT.done;
    if (flags.ack) await ackInTheEnd(context, ack);
  }
  return EXIT.done;
}

/** Acks; tries again while Redis is away, so that what was printed is not printed again. Rejects then only once it was stopped. */
async function ackInTheEnd({ clock, signal }: CommandContext, ack: ReceivedEntry["ack"]): Promise<void> {
  for (;;) {
    try {
      await ack();
      return;
    } catch (error) {
      if (!(error instanceof SubagentError && error.retryable) || signal.aborted) throw error;
    }
    await clock.sleep(ACK_RETRY_MS, signal);
  }
}

async function printAll(acting: ParentSession, flags: RepliesFlags): Promise<number> {
  const { parent, context } = acting;
  const { output } = context;
  const unacked: ReceivedEntry[] = [];
  for await (const entry of parent.replies({ follow: false })) unacked.push(entry);
  const entries = unacked.map(({ ack: _, ...entry }) => entry);
  if (flags.json) output.result(toJsonLine({ replies: entries }));
  else for (const entry of entries) output.result(...linesOf(context, entry));
  if (entries.length === 0) {
    if (!flags.json) output.note(`Nothing unacked for ${parent.parentId}.`);
    return EXIT.done;
  }
  if (!flags.ack) {
    if (!flags.json) {
      output.note(`${formatPlural(entries.length, "unacked entry", "unacked entries")}; --ack removes them.`);
    }
    return EXIT.done;
  }
  if (!(await output.delivered())) return EXIT.done;
  for (const entry of unacked) await entry.ack();
  return EXIT.done;
}

function linesOf({ output }: CommandContext, entry: ChannelEntry): string[] {
  return renderEntry(entry, { columns: output.resultColumns, style: output.resultStyle });
}
