/** `replies`: what has come from a parent's agents and is not acked yet, and with --follow what comes. */

import { newRequestKey } from "../shared/protocol/ids.ts";
import type { ChannelEntry } from "../shared/protocol/reply.ts";
import { isReadable, type StreamEntry } from "../shared/redis/reply-stream.ts";
import { type Acting, type ActingFlags, actAsParent } from "./acting.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { formatPlural } from "./figures.ts";
import { toJsonLine } from "./json.ts";
import { renderEntry } from "./reply-view.ts";

const PAGE_ENTRIES = 100;
const OLDEST = "0-0";

/** What the command line says. */
export interface RepliesFlags extends ActingFlags {
  /** Go on until told to stop. */
  follow: boolean;
  /** Take out of the channel what was printed. */
  ack: boolean;
}

/** Runs the command. An entry is acked after it was printed, and not at all when nobody reads the output any more. */
export function replies(context: CommandContext, flags: RepliesFlags): Promise<number> {
  return actAsParent(context, "replies", flags, (acting) =>
    flags.follow ? follow(acting, flags) : printAll(acting, flags),
  );
}

async function follow({ context, parent }: Acting, flags: RepliesFlags): Promise<number> {
  const { output, signal } = context;
  for await (const { ack, ...entry } of parent.replies({ signal })) {
    output.result(...(flags.json ? [toJsonLine(entry)] : linesOf(context, entry)));
    if (!(await output.delivered())) return EXIT.done;
    if (flags.ack) await ack();
  }
  return EXIT.done;
}

async function printAll(acting: Acting, flags: RepliesFlags): Promise<number> {
  const { client, parent, context } = acting;
  const { output } = context;
  const { inbox } = client.open();
  const unacked = await readAll(acting);
  const entries = unacked.map(({ entry }) => entry);
  if (flags.json) output.result(toJsonLine({ replies: entries }));
  else for (const entry of entries) output.result(...linesOf(context, entry));
  if (entries.length === 0) {
    if (!flags.json) output.note(`Nothing unacked for ${parent.parentId}.`);
    return EXIT.done;
  }
  if (!flags.ack) {
    if (!flags.json) {
      output.note(
        `${formatPlural(entries.length, "unacked entry", "unacked entries")}; --ack takes them out.`,
      );
    }
    return EXIT.done;
  }
  if (!(await output.delivered())) return EXIT.done;
  const ack = inbox.acker({ tenant: parent.tenant, parentId: parent.parentId });
  for (const entry of unacked) await ack(entry, newRequestKey());
  return EXIT.done;
}

/** Every unacked entry of the parent, oldest first. */
async function readAll({ client, parent }: Acting): Promise<StreamEntry[]> {
  const { replies: channel, call } = client.open();
  const address = { tenant: parent.tenant, parentId: parent.parentId };
  const found: StreamEntry[] = [];
  for (let after = OLDEST; ; ) {
    const page = await call().read(() => channel.read(address, after, PAGE_ENTRIES));
    found.push(...page.filter(isReadable));
    const last = page.at(-1);
    if (!last || page.length < PAGE_ENTRIES) return found;
    after = last.id;
  }
}

function linesOf({ output }: CommandContext, entry: ChannelEntry): string[] {
  return renderEntry(entry, { columns: output.resultColumns, style: output.resultStyle });
}
