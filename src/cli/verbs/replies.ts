/** `replies`: prints the unacked entries of a parent's reply channel; with --follow also the new ones. */
import type { ReceivedEntry } from "../../producer/replies/parent-channel.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { ChannelEntry, Question } from "../../shared/protocol/reply.ts";
import { type ActingFlags, actAsParent, actingOptions, type ParentSession } from "../as-parent.ts";
import { type CommandContext, type DefineCommand, EXIT, wholeUpTo } from "../command.ts";
import { formatPlural } from "../terminal/numbers.ts";
import { type QuestionEnd, renderEntry } from "../terminal/reply.ts";
import { toJsonLine } from "../terminal/text.ts";

/** Delay between attempts of an ack while Redis is unreachable. */
export const ACK_RETRY_MS = 1_000;
/** Number of entries that are printed, then acked in parallel. */
const PAGE_ENTRIES = 100;
/** Default --limit of one JSON document, because the document is built in memory. */
const DOCUMENT_ENTRIES = 1_000;
const MOST_ENTRIES = 1_000_000;

const HELP = `
Examples:
  subagent-queue replies                        look, and leave everything where it is
  subagent-queue replies --ack                  print and take out
  subagent-queue replies --follow --ack --json  one JSON line for each entry, until Ctrl-C

--json without --follow prints one document of the oldest entries, 1,000 unless
--limit says otherwise; {"more":true} in it says that there are others.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  actingOptions(command)
    .option("--follow", "keep printing new entries, until Ctrl-C", false)
    .option("--ack", "acknowledge the printed entries: they are not printed again", false)
    .option("--limit <count>", "at most so many entries, the oldest", wholeUpTo(MOST_ENTRIES, 1))
    .addHelpText("after", HELP)
    .action(async (flags: RepliesFlags) => done(await replies(open("warn"), flags)));
};

/** Command-line flags. */
interface RepliesFlags extends ActingFlags {
  /** Keep printing new entries until a signal stops the command. */
  follow: boolean;
  /** Ack the printed entries. */
  ack: boolean;
  /** Maximum number of entries. */
  limit?: number;
}

/** Runs the command. It acks an entry only after it was printed and while the output has a reader. */
function replies(context: CommandContext, flags: RepliesFlags): Promise<number> {
  return actAsParent(context, "replies", flags, (acting) =>
    flags.follow
      ? follow(acting, flags)
      : flags.json
        ? printDocument(acting, flags)
        : printAll(acting, flags),
  );
}

async function follow(acting: ParentSession, flags: RepliesFlags): Promise<number> {
  const { context, parent } = acting;
  const { output, signal } = context;
  let printed = 0;
  for await (const { ack, ...entry } of parent.replies({ signal })) {
    output.result(flags.json ? toJsonLine(entry) : await linesOf(acting, entry));
    if (!(await output.delivered())) return EXIT.done;
    if (flags.ack) await ackInTheEnd(context, ack);
    printed += 1;
    if (printed === flags.limit) return EXIT.done;
  }
  return EXIT.done;
}

/** Acks a printed entry, so that it is not printed again. Retries while Redis is unreachable, until the command is stopped. */
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

/** Acks a page after all of it was written; resolves to false if the reader is gone. */
async function ackPrinted(context: CommandContext, printed: readonly ReceivedEntry[]): Promise<boolean> {
  if (!(await context.output.delivered())) return false;
  await Promise.all(printed.map(({ ack }) => ackInTheEnd(context, ack)));
  return true;
}

/** Prints the unacked entries, one page at a time. */
async function printAll(acting: ParentSession, flags: RepliesFlags): Promise<number> {
  const { parent, context } = acting;
  const { output, signal } = context;
  let [printed, page, isMore]: [number, ReceivedEntry[], boolean] = [0, [], false];
  for await (const received of parent.replies({ follow: false, signal })) {
    isMore = printed === flags.limit;
    if (isMore) break;
    const { ack: _, ...entry } = received;
    output.result(await linesOf(acting, entry));
    printed += 1;
    page.push(received);
    if (page.length < PAGE_ENTRIES) continue;
    if (flags.ack && !(await ackPrinted(context, page))) return EXIT.done;
    page = [];
  }
  if (flags.ack && !(await ackPrinted(context, page))) return EXIT.done;
  if (signal.aborted) return EXIT.interrupted;
  if (printed === 0) output.note(`Nothing unacked for ${parent.parentId}.`);
  else if (isMore) output.note(`These are the first ${printed}: there are more.`);
  else if (!flags.ack)
    output.note(`${formatPlural(printed, "unacked entry", "unacked entries")}; --ack removes them.`);
  return EXIT.done;
}

/** Prints the unacked entries, up to the limit, as one document. */
async function printDocument({ parent, context }: ParentSession, flags: RepliesFlags): Promise<number> {
  const { output, signal } = context;
  const { limit = DOCUMENT_ENTRIES } = flags;
  const found: ReceivedEntry[] = [];
  let isMore = false;
  for await (const received of parent.replies({ follow: false, signal })) {
    isMore = found.length === limit;
    if (isMore) break;
    found.push(received);
  }
  if (signal.aborted) return EXIT.interrupted;
  const replies = found.map(({ ack: _, ...entry }) => entry);
  output.result(toJsonLine({ replies, ...(isMore && { more: true }) }));
  if (flags.ack) await ackPrinted(context, found);
  return EXIT.done;
}

async function linesOf(acting: ParentSession, entry: ChannelEntry): Promise<string[]> {
  const { output } = acting.context;
  const closed = entry.kind === "question" ? await questionEnd(acting, entry) : undefined;
  const view = { columns: output.resultColumns, style: output.resultStyle };
  return renderEntry(entry, { ...view, ...(closed && { closed }) });
}

/** Returns how a question ended; undefined if it is open or Redis does not answer. */
async function questionEnd(
  { parent }: ParentSession,
  { agent_id, question_id }: Question,
): Promise<QuestionEnd | undefined> {
  try {
    const { status, questions = [] } = await parent.get(agent_id);
    if (status === "ended") return "over";
    return questions.some((open) => open.question_id === question_id) ? undefined : "answered";
  } catch (error) {
    return error instanceof SubagentError && error.code === "unknown_agent" ? "over" : undefined;
  }
}
